"""Baselines: what they excuse, and what they do not, after a model was edited, renumbered or renamed."""

from pathlib import Path

import onnx
import pytest
from support.renamed import renamed, reordered

from qdqtool.errors import UsageError
from qdqtool.jobs.validate import validate_files
from qdqtool.linting.baseline import Compared, read_baseline, without_known, write_baseline
from qdqtool.linting.policy import Policy
from qdqtool.linting.report import ValidateReport

HEADER = '<ir_version: 10, opset_import: ["": 21]>\n'

LAYERS = """agraph (float[1,2] x) => (float[1,2] y) <float zero = {0}, float s = {1}, int8 z = {0}> {
    q = QuantizeLinear (x, s, z)
    d = DequantizeLinear (q, zero, z)
    r = Relu (d)
    q2 = QuantizeLinear (r, s, z)
    d2 = DequantizeLinear (q2, zero, z)
    y = Neg (d2)
}"""


def validate(folder: Path, text: str = LAYERS, change=lambda proto: proto) -> ValidateReport:
    onnx.save(change(onnx.parser.parse_model(HEADER + text)), folder / "m.onnx")
    return validate_files([folder / "m.onnx"], Policy(select=("QP101", "QP106")))


@pytest.fixture
def baseline(tmp_path: Path) -> Path:
    (tmp_path / "known").mkdir()
    assert write_baseline(validate(tmp_path), tmp_path / "known" / "b.json") == 4
    return tmp_path / "known" / "b.json"


def compare(report: ValidateReport, baseline: Path) -> Compared:
    return without_known(report, read_baseline(baseline), baseline.parent)


@pytest.mark.parametrize(
    "change",
    [lambda proto: proto, reordered, renamed, lambda proto: reordered(renamed(proto, "tensor_"))],
    ids=["same", "reordered", "renamed", "both"],
)
def test_a_model_that_computes_the_same_has_nothing_new(change, tmp_path: Path, baseline: Path):
    compared = compare(validate(tmp_path, change=change), baseline)

    assert not compared.report.findings
    assert compared.report.summary.known == 4
    assert compared.gone == 0
    assert compared.report.models[0].targets[0].verdict == "pass"


def test_a_new_fault_is_new(tmp_path: Path, baseline: Path):
    text = LAYERS.replace("q2 = QuantizeLinear (r, s, z)", "q2 = QuantizeLinear (r, zero, z)")
    compared = compare(validate(tmp_path, text), baseline)

    assert [(finding.code, finding.node) for finding in compared.report.findings] == [("QP101", "QuantizeLinear -> q2")]
    assert compared.gone == 1, "that pair agrees now"


def test_another_value_at_the_same_place_is_new(tmp_path: Path, baseline: Path):
    compared = compare(validate(tmp_path, LAYERS.replace("zero = {0}", "zero = {-1}")), baseline)

    assert {finding.code for finding in compared.report.findings} >= {"QP101"}
    assert compared.gone


def test_an_entry_excuses_one_finding(tmp_path: Path, baseline: Path):
    """A third layer of the same kind is new, although it looks like the others."""
    text = LAYERS.replace(
        "y = Neg (d2)", "r3 = Relu (d2) q3 = QuantizeLinear (r3, s, z) d3 = DequantizeLinear (q3, zero, z) y = Neg (d3)"
    )
    compared = compare(validate(tmp_path, text, renamed), baseline)

    assert sorted(finding.code for finding in compared.report.findings) == ["QP101", "QP106"]
    assert compared.report.summary.known == 4


def test_fixed_findings_are_counted(tmp_path: Path, baseline: Path):
    compared = compare(validate(tmp_path, LAYERS.replace("zero = {0}", "zero = {1}")), baseline)

    assert not compared.report.findings
    assert compared.gone == 4


def test_entries_of_other_models_and_targets_stay_quiet(tmp_path: Path, baseline: Path):
    onnx.save(onnx.parser.parse_model(HEADER + LAYERS), tmp_path / "other.onnx")
    other = validate_files([tmp_path / "other.onnx"], Policy(select=("QP101",)))
    elsewhere = validate_files([tmp_path / "m.onnx"], Policy(targets=("ort-cpu",), select=("QP101",)))

    for report in (other, elsewhere):
        compared = compare(report, baseline)
        assert compared.report.findings == report.findings
        assert compared.gone == 0


def test_a_baseline_is_the_same_bytes_each_time(tmp_path: Path, baseline: Path):
    again = tmp_path / "known" / "again.json"
    write_baseline(validate(tmp_path), again)

    assert again.read_bytes() == baseline.read_bytes()
    assert '"model": "../m.onnx"' in baseline.read_text()


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (None, "cannot be read"),
        (b"{", "is not a baseline"),
        (b"\xff\xfe", "is not a baseline"),
        (b'{"schema_version": 2, "findings": [{"model": "m"}]}', "is not a baseline"),
        (b'{"schema_version": 1, "findings": []}', "schema_version 1.*also stores the severity"),
        (b'{"schema_version": 3, "findings": []}', "schema_version 3"),
        (b"[" * 100_000, "is not a baseline"),
    ],
)
def test_what_is_no_baseline_is_refused(content: bytes | None, said: str, tmp_path: Path):
    path = tmp_path / "b.json"
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(UsageError, match=said):
        read_baseline(path)


PAIR = """agraph (float[1,2,1,1] x) => (float[1,2,1,1] y) <float s = {SCALE}, float t = {READ}, int8 z = {0}> {
    q = QuantizeLinear (x, s, z)
    y = DequantizeLinear (q, t, z)
}"""


def mismatched(made: float, read: float) -> str:
    return PAIR.replace("SCALE", str(made)).replace("READ", str(read))


@pytest.mark.parametrize(
    ("made", "read", "worse"),
    [
        (0.0532, 0.1064, 0),
        (0.0001, 0.1064, 1),  # the Q alone changed, to a scale that clips everything
        (0.0266, 0.0532, 0),  # calibrated again: the same factor between other scales
        (0.0532, 0.08, 0),  # better
        (0.0532, 0.11, 0),  # a hair worse
        (0.0532, 0.4256, 1),
        (0.1064, 0.0532, 0),  # as bad in the other direction
    ],
)
def test_a_known_mismatch_is_new_when_the_factor_grew(made: float, read: float, worse: int, tmp_path: Path):
    known = tmp_path / "b.json"
    write_baseline(validate(tmp_path, mismatched(0.0532, 0.1064)), known)
    compared = compare(validate(tmp_path, mismatched(made, read)), known)

    assert [finding.code for finding in compared.report.findings] == ["QP106"] * worse
    assert (compared.worse, compared.gone) == (worse, 0)


def channels(wrong: int) -> str:
    """32 channels whose Q has another scale in the first ``wrong``."""
    made = ", ".join("0.2" if channel < wrong else "0.1" for channel in range(32))
    read, zeros = ", ".join(["0.1"] * 32), ", ".join(["0"] * 32)
    return f"""agraph (float[32] x) => (float[32] y)
    <float[32] s = {{{made}}}, float[32] t = {{{read}}}, int8[32] z = {{{zeros}}}> {{
        q = QuantizeLinear <axis = 0> (x, s, z)
        y = DequantizeLinear <axis = 0> (q, t, z)
    }}"""


@pytest.mark.parametrize(("before", "after", "worse"), [(1, 32, 1), (1, 2, 1), (5, 5, 0), (32, 1, 0)])
def test_a_known_mismatch_is_new_in_more_channels(before: int, after: int, worse: int, tmp_path: Path):
    known = tmp_path / "b.json"
    write_baseline(validate(tmp_path, channels(before)), known)

    assert compare(validate(tmp_path, channels(after)), known).worse == worse


def test_of_findings_that_look_alike_each_is_compared_with_one_as_bad(tmp_path: Path):
    """Two layers of one structure change places, with everything renamed."""

    def layers(first: float, second: float) -> str:
        return f"""agraph (float[4] a, float[4] b) => (float[4] y, float[4] w)
        <float s = {{0.1}}, float t = {{{first}}}, float u = {{{second}}}, int8 z = {{0}}> {{
            q = QuantizeLinear (a, s, z)
            y = DequantizeLinear (q, t, z)
            p = QuantizeLinear (b, s, z)
            w = DequantizeLinear (p, u, z)
        }}"""

    known = tmp_path / "b.json"
    write_baseline(validate(tmp_path, layers(0.2, 0.8)), known)
    swapped = compare(validate(tmp_path, layers(0.8, 0.2), lambda proto: renamed(proto, "tensor_")), known)
    both = compare(validate(tmp_path, layers(0.8, 0.8), lambda proto: renamed(proto, "tensor_")), known)

    assert (len(swapped.report.findings), swapped.worse) == (0, 0)
    assert (len(both.report.findings), both.worse) == (1, 1)


def test_what_is_ignored_stays_in_the_report(tmp_path: Path):
    onnx.save(onnx.parser.parse_model(HEADER + LAYERS), tmp_path / "m.onnx")
    report = validate_files([tmp_path / "m.onnx"], Policy(select=("QP101", "QP106"), ignore=("QP101",)))
    write_baseline(report, tmp_path / "b.json")
    compared = compare(report, tmp_path / "b.json").report

    assert compared.summary.known == compared.summary.ignored == 2
    assert compared.models[0].qdq_nodes == 4
