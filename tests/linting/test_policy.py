"""Policies: severities, ignores, suppressions, many models at once; findings are recognized under other names."""

import itertools
import re
from collections.abc import Iterator
from dataclasses import astuple
from pathlib import Path

import onnx
import pytest
from support.killer import judge_or_die
from support.renamed import renamed, reordered

from qdqtool.errors import ArgumentError
from qdqtool.jobs.validate import validate_files, validate_model
from qdqtool.linting import rules, workers
from qdqtool.linting.findings import Finding
from qdqtool.linting.policy import Linter, Policy
from qdqtool.linting.report import ModelReport
from qdqtool.linting.rules import RuleContext
from qdqtool.models import targets
from qdqtool.models.graph.index.suppressions import KEY
from qdqtool.models.graph.model import Model

HEADER = '<ir_version: 10, opset_import: ["": 21]>\n'

TWO = """agraph (float[1,2] x, bool c) => (float[1,2] y) <float bad = {0}, float s = {1}, int8 z = {0}> {
    [first] q = QuantizeLinear (x, bad, z)
    [second] d = DequantizeLinear (q, bad, z)
    [branch] y = If (c) <
        then_branch = t () => (float[1,2] a) {
            [inner] iq = QuantizeLinear (d, bad, z)
            a = DequantizeLinear (iq, s, z)
        },
        else_branch = e () => (float[1,2] b) { b = Identity (d) }
    >
}"""
"""Three findings of QP101: at first, second and, in a branch, inner."""


def parse(text: str = TWO) -> Model:
    return Model(onnx.parser.parse_model(HEADER + text))


def places(model: Model, policy: Policy) -> list[str | None]:
    (report,) = Linter(policy).model(model).targets
    return [finding.node for finding in report.findings]


ONLY = Policy(select=("QP101",))


def note(holder: onnx.NodeProto | onnx.GraphProto | onnx.ModelProto, value: str) -> None:
    holder.metadata_props.add(key=KEY, value=value)


def test_the_model_has_three_findings():
    assert places(parse(), ONLY) == ["first", "second", "inner"]


def test_a_note_on_a_node_counts_for_that_node():
    model = parse()
    note(model.proto.graph.node[0], "QP101: known")
    (report,) = Linter(ONLY).model(model).targets

    assert [finding.node for finding in report.findings] == ["second", "inner"]
    assert report.suppressed == 1


def test_a_note_on_a_node_with_bodies_counts_for_them():
    model = parse()
    note(model.proto.graph.node[2], "QP101: known")

    assert places(model, ONLY) == ["first", "second"]


def test_a_note_on_a_graph_counts_for_what_is_in_it():
    model = parse()
    note(model.proto.graph.node[2].attribute[0].g, "QP: known")
    assert places(model, ONLY) == ["first", "second"]

    model = parse()
    note(model.proto.graph, "parameters.: known")
    assert places(model, ONLY) == []


def test_a_note_on_the_model_counts_for_everything():
    model = parse()
    note(model.proto, "QS001, QP101")

    assert places(model, ONLY) == []


def test_a_note_about_another_rule_counts_for_nothing():
    model = parse()
    note(model.proto, "QP102: known\nQS: known")

    assert len(places(model, ONLY)) == 3


def unused(model: Model) -> list[tuple[str | None, str | None]]:
    found = validate_model(model, ["tensorrt"], select=["QM901"]).findings
    return [(finding.node, finding.found) for finding in found]


def test_notes_that_fit_nothing_are_reported_where_they_are():
    model = parse()
    note(model.proto.graph.node[0], "QP101: fits\nQP104: does not\nQP9999: no such rule")
    note(model.proto, "QA")

    assert unused(model) == [(None, "QA"), ("first", "QP104"), ("first", "QP9999")]


def test_a_note_is_used_when_any_target_has_the_finding():
    """Otherwise the same model could not be validated for one target after another."""
    model = Model(rules.get("QS002").INVALID[0].model())
    note(model.proto.graph.node[0], "QS002: meant")

    assert not any(validate_model(model, [name], select=["QM901"]).findings for name in targets.names())


def test_hostile_notes_are_data():
    model = parse()
    note(model.proto.graph.node[0], "\x1b[31m::error::\nALLES, ,,\r\n:::\n" + "Q" * 10_000)

    assert len(unused(model)) == 3
    assert len(places(model, ONLY)) == 3


def test_severities_of_the_policy_go_before_those_of_the_rules():
    policy = Policy(select=("QP101",), severity={"QP": "info", "QP101": "warning", "ALL": "error"})
    (report,) = Linter(policy).model(parse()).targets

    assert {finding.severity for finding in report.findings} == {"warning"}
    assert report.verdict == "pass"


def test_what_a_policy_hides_is_counted():
    reports = {
        name: Linter(policy).model(parse()).targets[0]
        for name, policy in {
            "whole": Policy(),
            "selected": ONLY,
            "lowered": Policy(severity={"Q": "info"}),
            "ignored": Policy(ignore=("QP101",)),
        }.items()
    }
    every = len(reports["whole"].checked)
    hidden = {name: (each.not_selected, each.lowered, *map(astuple, each.ignored)) for name, each in reports.items()}
    errors = sum(finding.severity == "error" for finding in reports["whole"].findings)
    assert hidden == {
        "whole": (0, 0),
        "selected": (every - 1, 0),
        "lowered": (0, errors),
        "ignored": (0, 0, ("QP101", 3, 3)),
    }


def test_ignores_by_node_are_globs_over_names():
    policy = Policy(select=("QP101",), per_node_ignores={"*n*r": ("QP1",), "first": ("QA",)})

    assert places(parse(), policy) == ["first", "second"]


@pytest.mark.parametrize(
    ("glob", "ignored"), [("old/*.onnx", True), ("m.onnx", True), ("*.onnx", True), ("new/*", False), ("old", False)]
)
def test_ignores_by_model_are_globs_over_paths(glob: str, ignored: bool, tmp_path: Path):
    (tmp_path / "old").mkdir()
    onnx.save(parse().proto, tmp_path / "old" / "m.onnx")
    policy = Policy(select=("QP101",), per_model_ignores={glob: ("QP101",)}, folder=tmp_path)
    (report,) = Linter(policy).file(tmp_path / "old" / "m.onnx").targets

    assert bool(report.findings) != ignored
    assert ("QP101" in report.checked) != ignored


@pytest.mark.parametrize(
    ("policy", "message"),
    [
        (Policy(select=("QX",)), "'QX' is neither ALL nor the beginning of a rule code"),
        (Policy(severity={"QX": "info"}), "'QX' is neither ALL nor the beginning of a rule code"),
        (Policy(per_node_ignores={"*": ("QX",)}), "'QX' is neither ALL nor the beginning of a rule code"),
        (Policy(per_model_ignores={"*": ("QX",)}), "'QX' is neither ALL nor the beginning of a rule code"),
        (Policy(targets=()), "targets is empty; it must be one or more of onnx, ort-cpu"),
        (Policy(targets=("tensort",)), "target 'tensort' is unknown; .* did you mean 'tensorrt'"),
    ],
)
def test_a_policy_about_nothing_is_refused(policy: Policy, message: str):
    with pytest.raises(ArgumentError, match=message):
        Linter(policy)


@pytest.mark.parametrize(
    ("select", "ignore", "extend", "there"),
    [
        (["QP101"], ["QP"], [], True),
        (["QP"], ["QP101"], [], False),
        (["QP101"], ["QP101"], [], False),
        (["ALL"], ["QP"], ["QP101"], True),
        (["QS"], [], ["QP"], True),
        (None, ["ALL"], ["QP"], True),
        (None, ["ALL"], [], False),
    ],
)
def test_the_narrower_prefix_wins(select: list[str] | None, ignore: list[str], extend: list[str], there: bool):
    assert (rules.get("QP101") in rules.choose(select, ignore, extend)) == there


@pytest.fixture
def models(tmp_path: Path) -> list[Path]:
    paths = []
    for number, code in enumerate(["QP101", "QS002", "QL302", "QP102"]):
        path = tmp_path / f"{number}.onnx"
        onnx.save(rules.get(code).INVALID[0].model(), path)
        paths.append(path)
    (tmp_path / "broken.onnx").write_bytes(b"\x08\x07garbage")
    return [*paths[:2], tmp_path / "broken.onnx", *paths[2:]]


def test_processes_report_what_one_process_does_in_the_same_order(models: list[Path]):
    policy = Policy(targets=("tensorrt", "onnx"))
    alone, shared = (validate_files(models, policy, jobs=jobs) for jobs in (1, 2))

    assert [model.path for model in shared.models] == [str(path) for path in models]
    assert shared == alone
    assert len(shared.unreadable) == 1


def test_a_model_that_kills_its_process_does_not_stop_the_others(models: list[Path], monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(workers, "_judge", judge_or_die)
    report = validate_files(models[:3], Policy(), jobs=2)

    assert [model.error is not None for model in report.models] == [True, False, True]
    assert "the process that read it was killed" in (report.models[0].error or "")


def test_the_same_model_twice_is_reported_twice(models: list[Path]):
    report = validate_files([models[0], models[0]], Policy(), jobs=2)

    assert report.models[0] == report.models[1]


def test_a_wrong_policy_is_told_before_any_process_starts(models: list[Path]):
    with pytest.raises(ArgumentError, match="did you mean"):
        validate_files(models, Policy(select=("QP1O1",)), jobs=2)


def test_few_models_are_judged_without_other_processes(models: list[Path], monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(workers, "_pool", None)
    report = validate_files(models, Policy(), jobs=None)

    assert report == validate_files(models, Policy(), jobs=1)


def test_what_is_left_after_a_second_is_shared(models: list[Path], monkeypatch: pytest.MonkeyPatch):
    shared: list[Path] = []
    original = workers._together

    def together(paths: list[Path], policy: Policy, workers: int) -> dict[Path, ModelReport]:
        shared.extend(paths)
        assert workers == 2
        return original(paths, policy, workers)

    clock = itertools.chain([0.0, 0.0, 100.0], itertools.repeat(0.0))
    monkeypatch.setattr(workers, "perf_counter", lambda: next(clock))
    monkeypatch.setattr(workers, "cores", lambda: 2)
    monkeypatch.setattr(workers, "_together", together)
    report = validate_files(models, Policy(), jobs=None)

    assert len(shared) == len(models) - 1
    assert report == validate_files(models, Policy(), jobs=1)


@pytest.mark.parametrize(
    ("seconds", "count", "expected"), [(10, 1, False), (1.5, 2, False), (3, 2, True), (1.5, 8, True), (0, 8, False)]
)
def test_sharing_pays_where_it_saves_more_than_a_start(seconds: float, count: int, expected: bool):
    assert workers.parallel_pays(seconds, count) == expected


@pytest.mark.parametrize(
    "policy",
    [
        Policy(select=("QP101", "QS002"), ignore=("QP101",)),
        Policy(select=("QP101", "QS002"), per_model_ignores={"*.onnx": ("QP",)}),
    ],
)
def test_findings_of_ignored_rules_are_counted(policy: Policy, tmp_path: Path):
    onnx.save(rules.get("QP101").INVALID[0].model(), tmp_path / "m.onnx")
    report = validate_files([tmp_path / "m.onnx"], policy)
    (target,) = report.models[0].targets

    assert [(each.code, each.count) for each in target.ignored] == [("QP101", 1)]
    assert not target.findings
    assert report.summary.ignored == 1


def test_rules_that_are_not_selected_are_not_ignored():
    report = validate_model(Model(rules.get("QP101").INVALID[0].model()), select=["QS"])

    assert report.models[0].targets[0].ignored == ()


def test_what_a_note_suppresses_is_not_counted_as_ignored_too():
    model = rules.get("QP101").INVALID[0].model()
    model.metadata_props.add(key="qdqtool.ignore", value="QP101: a test")
    report = validate_model(Model(model), ignore=["QP101"])

    assert report.summary.ignored == 0


def test_the_report_says_how_many_qdq_nodes_there_are():
    floats = onnx.parser.parse_model(
        '<ir_version: 10, opset_import: ["": 21]> g (float x) => (float y) { y = Relu (x) }'
    )
    counts = [
        validate_model(Model(each)).models[0].qdq_nodes for each in (floats, rules.get("QP106").INVALID[0].model())
    ]

    assert counts == [0, 2]


def weights(count: int, zero: int) -> Model:
    nodes = (
        "".join(f"d{at} = DequantizeLinear (w, s, z) x{at + 1} = MatMul (x{at}, d{at}) " for at in range(count))
        + f"y = Identity (x{count})"
    )
    return parse(
        f"agraph (float[1,2] x0) => (float[1,2] y) <float s = {{1}}, int8 z = {{{zero}}}, int8[2,2] w = {{1,2,3,4}}> "
        f"{{ {nodes} }}"
    )


@pytest.mark.parametrize(("count", "zero", "found"), [(11, 5, 11), (10, 5, 0), (11, 0, 0)])
def test_weights_with_one_scale_are_counted_where_a_fault_repeats(count: int, zero: int, found: int):
    report = Linter(Policy()).model(weights(count, zero))
    assert report.per_tensor_weights == found
    assert [cause.cause for cause in report.targets[0].causes] == ["asymmetric weights"] * (found > 0)


WITHOUT_DEGREES = {
    "QA201": "an axis is right or wrong",
    "QA202": "an activation has one scale or several",
    "QA206": "one block of a whole axis is right or wrong",
    "QL301": "a type",
    "QL307": "inputs of an attention: quantizing one more or one less are both steps away from all or none",
    "QL308": "a layer below a threshold is small",
    "QL310": "a granularity",
    "QL313": "a type",
    "QL315": "a type and a granularity",
    "QL316": "a type",
    "QL317": "a shape",
    "QL319": "a type",
    "QM614": "an opset that ONNX does not have",
    "QM901": "a code",
    "QP103": "a type",
    "QP110": "an attribute that is there or not",
    "QP112": "a type",
    "QS003": "a type",
    "QS004": "an opset",
    "QS015": "an operator",
}
"""Rules whose values have digits in them and do not get worse by degrees: another value is another finding."""


def every_finding() -> Iterator[Finding]:
    for rule in rules.catalogue():
        for example in rule.INVALID:
            context = RuleContext(Model(example.model()))
            for name in targets.names():
                yield from rule.run(context, targets.get(name))


def test_a_value_that_can_get_worse_has_an_extent():
    plain = [each for each in every_finding() if each.extent is None and each.effect != "refused"]
    numeric = {each.code for each in plain if re.search(r"\d", each.found or "")}

    assert numeric <= WITHOUT_DEGREES.keys(), "give the Fault an extent, or say here why it has no degrees"


@pytest.mark.parametrize("code", ["QP101", "QL302", "QS002", "QP106"])
@pytest.mark.parametrize(
    "change", [reordered, lambda proto: renamed(proto, "val_"), lambda proto: renamed(proto, "onnx::X_")]
)
def test_fingerprints_survive_new_order_and_new_names(code: str, change):
    proto = rules.get(code).INVALID[0].model()
    first, second = (validate_model(Model(each), select=[code]).findings for each in (proto, change(proto)))

    assert first
    assert sorted(finding.structure for finding in first) == sorted(finding.structure for finding in second)
    if change is reordered:
        assert sorted(finding.fingerprint for finding in first) == sorted(finding.fingerprint for finding in second)


def test_names_that_are_only_renumbered_keep_the_fingerprint():
    proto = renamed(rules.get("QP101").INVALID[0].model(), "val_")
    shifted = onnx.ModelProto.FromString(
        re.sub(rb"val_(\d)", lambda match: b"val_%d" % ((int(match[1]) + 4) % 10), proto.SerializeToString())
    )
    first, second = (validate_model(Model(each), select=["QP101"]).findings for each in (proto, shifted))

    assert first[0].tensor != second[0].tensor
    assert first[0].fingerprint == second[0].fingerprint


def test_another_value_is_another_finding():
    one, other = rules.get("QP101").INVALID[:2]
    first, second = (validate_model(Model(each.model()), select=["QP101"]).findings for each in (one, other))

    assert first[0].fingerprint != second[0].fingerprint
