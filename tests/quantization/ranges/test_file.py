"""Ranges merge exactly in any order, and their file gives back the same bits or says what is wrong with it."""

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.refusals import refused

from qdqtool.errors import UsageError
from qdqtool.quantization.calibration_report import Trial, TrialOutput
from qdqtool.quantization.ranges import file
from qdqtool.quantization.ranges.file import encode_ranges, read_ranges
from qdqtool.quantization.ranges.types import (
    UNSEEN,
    CalibrationRecord,
    PreparationStep,
    Ranges,
    RangesPart,
    TensorRange,
)

RECORD = CalibrationRecord(
    method="max",
    samples=3,
    random=True,
    seed=5,
    data_sha256="d",
    model_sha256="m",
    preparation=(PreparationStep("batchnorm"),),
)
NUMBERS = st.floats(allow_nan=False, allow_infinity=False)
ENTRY = {"tensor": "x", "scope": [], "min": -2.0, "max": 1.0, "amax": 2.0, "count": 4}


def range_of(values: list[float]) -> TensorRange:
    return TensorRange(min(values), max(values), max(map(abs, values)), len(values))


def stored(tmp_path: Path, **changes: object) -> Path:
    entry = {**ENTRY, **changes}
    document = json.loads(encode_ranges(Ranges(RECORD)))
    path = tmp_path / "r.json"
    path.write_text(json.dumps({**document, "tensors": [entry]}))
    return path


def again(folder: Path, ranges: Ranges) -> Ranges:
    """The ranges, written to ``r.json`` and read."""
    (folder / "r.json").write_bytes(encode_ranges(ranges))
    return read_ranges(folder / "r.json")


@given(st.lists(NUMBERS, min_size=1), st.lists(NUMBERS, min_size=1))
def test_merging_gives_the_range_of_all_values_in_either_order(left, right):
    both = range_of(left + right)
    assert range_of(left).merge(range_of(right)) == both
    assert range_of(right).merge(range_of(left)) == both


@given(st.lists(NUMBERS, min_size=1))
def test_a_tensor_without_values_changes_nothing(values):
    assert UNSEEN.merge(range_of(values)) == range_of(values)


@given(st.lists(NUMBERS, min_size=1))
def test_the_file_gives_back_the_same_bits(tmp_path_factory, values):
    ranges = Ranges(RECORD, {((), "x"): range_of(values), (("y.then_branch",), "é/\x1b"): UNSEEN})
    found = again(tmp_path_factory.mktemp("ranges"), ranges)
    assert found == ranges
    assert encode_ranges(found) == encode_ranges(ranges)


def test_the_file_says_what_was_run_on_what(tmp_path):
    document = json.loads(stored(tmp_path).read_text())
    assert document["schema_version"] == 2
    assert document["model"] == {"sha256": "m", "preparation": [{"step": "batchnorm", "parameters": {}}]}
    assert document["data"] == {"sha256": "d", "samples": 3, "random": True, "seed": 5, "chunk": 16}
    assert document["method"] == {"name": "max", "parameters": {}}


def test_a_tensor_named_twice_is_refused(tmp_path):
    path = stored(tmp_path)
    document = json.loads(path.read_text())
    path.write_text(json.dumps({**document, "tensors": document["tensors"] * 2}))
    with pytest.raises(UsageError, match="names tensor 'x' twice"):
        read_ranges(path)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("{", "is no ranges file"),
        ("[1]", "is no ranges file"),
        ("[" * 100_000, "is no ranges file"),
        ("{}", "has schema_version None; this qdqtool reads 1 and 2"),
        ('{"schema_version": 3}', "has schema_version 3; this qdqtool reads 1 and 2"),
        ('{"schema_version": 1}', "is no ranges file: .*model"),
    ],
)
def test_another_file_is_refused_with_the_reason(tmp_path, text, message):
    path = tmp_path / "r.json"
    path.write_text(text)
    with pytest.raises(UsageError, match=message):
        read_ranges(path)


def test_an_unknown_key_is_refused(tmp_path):
    with pytest.raises(UsageError, match="mean"):
        read_ranges(stored(tmp_path, mean=0.0))


def test_a_missing_file_says_so(tmp_path):
    with pytest.raises(UsageError, match="cannot be read: No such file"):
        read_ranges(tmp_path / "absent.json")


HISTOGRAM = {"exponent": -12, "zeros": 1, "counts": "2 0*8190 1"}


def with_histogram(tmp_path: Path, entry: dict[str, object], **changes: object) -> Path:
    return stored(tmp_path, **{"histogram": {**HISTOGRAM, **changes}, **entry})


def test_a_histogram_is_read_as_it_was_written(tmp_path):
    ranges = read_ranges(with_histogram(tmp_path, {}, counts="2 0*8191 1"))
    histogram = ranges.tensors[(), "x"].histogram
    assert (histogram.exponent, histogram.zeros, np.flatnonzero(histogram.counts).tolist()) == (-12, 1, [0, 8192])
    assert again(tmp_path, ranges) == ranges


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"counts": "2 0*8191 3"}, "has 6 values, 1 of them zeros; the tensor has 4"),
        ({"zeros": -1, "counts": "4 0*8191 1"}, "has 4 values, -1 of them zeros"),
        ({"exponent": -11, "counts": "2 0*8191 1"}, "has exponent -11; for largest magnitude 2.0 it must be -12"),
        ({"exponent": None, "counts": "2 0*8191 1"}, "has exponent None"),
        ({}, "has no values in the bin of the largest magnitude, 2.0"),
        ({"counts": "2, 1"}, "counts: are no list"),
    ],
)
def test_a_histogram_that_contradicts_its_range_is_refused(tmp_path, changes, message):
    with pytest.raises(UsageError, match=f"tensor 'x': .*{message}"):
        read_ranges(with_histogram(tmp_path, {}, **changes))


def test_a_part_is_read_as_it_was_written_and_must_lie_within_the_data(tmp_path):
    ranges = Ranges(RECORD, {}, {}, RangesPart(0, 2, 1))
    assert again(tmp_path, ranges) == ranges
    assert again(tmp_path, ranges).samples == 1
    with pytest.raises(
        UsageError, match="of 3 samples, the part has start 1, done 2 and stop 4; they must not decrease"
    ):
        again(tmp_path, Ranges(RECORD, {}, {}, RangesPart(1, 4, 2)))


def test_the_choosing_part_is_kept_until_the_calibration_has_ended(tmp_path):
    key = ((), "x")
    ranges = Ranges(RECORD, {key: range_of([-1.0, 4.0])}, {}, RangesPart(0, 3, 1), {key: range_of([4.0])})
    assert again(tmp_path, ranges) == ranges
    for part in (None, RangesPart(0, 3, 3)):
        assert again(tmp_path, replace(ranges, part=part)) == replace(ranges, part=part, choosing=None)
    assert b"choosing" not in (tmp_path / "r.json").read_bytes()


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (
            lambda file: file["choosing"].clear(),
            "the selection samples and all samples have ranges of different tensors",
        ),
        (
            lambda file: file["choosing"][0].update(tensor="y"),
            "the selection samples and all samples have ranges of different tensors",
        ),
        (lambda file: file["choosing"][0].update(count=3), "tensor 'x' has more values or a wider range in the "),
        (
            lambda file: file["choosing"][0].update(max=5.0, amax=5.0),
            "tensor 'x' has more values or a wider range in the selection samples",
        ),
        (
            lambda file: file["choosing"][0].update(min=-2.0),
            "tensor 'x' has more values or a wider range in the selection samples",
        ),
        (lambda file: file["choosing"][0].update(amax=1.0), "contradict each other"),
        (lambda file: file["part"].update(done=3), "have ranges of selection samples, although the calibra"),
        (lambda file: file.pop("part"), "have ranges of selection samples, although the calibration is complete"),
    ],
)
def test_a_choosing_part_that_contradicts_the_rest_is_refused(tmp_path, change, message):
    path, key = tmp_path / "r.json", ((), "x")
    ranges = Ranges(RECORD, {key: range_of([-1.0, 4.0])}, {}, RangesPart(0, 3, 1), {key: range_of([-1.0, 4.0])})
    document = json.loads(encode_ranges(ranges))
    change(document)
    path.write_text(json.dumps(document))
    with pytest.raises(UsageError, match=message):
        read_ranges(path)


def test_why_a_tensor_has_no_range_is_kept(tmp_path):
    ranges = Ranges(RECORD, {((), "x"): UNSEEN}, {((), "x"): "its shape changes"})
    assert again(tmp_path, ranges) == ranges


def test_a_file_of_version_1_is_read(tmp_path):
    path = tmp_path / "old.json"
    document = {
        "schema_version": 1,
        "model": {"sha256": "m", "batchnorm_folded": True},
        "data": {"sha256": "d", "samples": 3, "random": True, "seed": 5},
        "method": {"name": "max", "parameters": {}},
        "tensors": [ENTRY],
    }
    path.write_text(json.dumps(document))
    assert read_ranges(path) == Ranges(replace(RECORD, chunk=None), {((), "x"): TensorRange(-2.0, 1.0, 2.0, 4)})


def test_trials_and_their_parameters_are_kept(tmp_path):
    outputs = (TrialOutput(name="y", without_db=20.5, with_db=None),)
    trial = Trial(samples=4, kept=False, outputs=outputs, problem="none")
    steps = (PreparationStep("a", {"alpha": 0.5}, trial), PreparationStep("b"))
    ranges = Ranges(replace(RECORD, preparation=steps, parameters={"percentile": 99.9}))
    found = again(tmp_path, ranges)
    assert found == ranges
    assert [step.trial for step in found.record.preparation] == [trial, None]


@pytest.mark.parametrize(
    ("changes", "histogram"),
    [
        ({}, None),
        ({"min": 2.0, "max": 2.0}, None),
        ({"min": -2.0, "max": -1.0}, None),
        ({"min": 0.0, "max": 0.0, "amax": 0.0, "count": 1}, {"exponent": None, "zeros": 1, "counts": ""}),
        ({"count": 1, "min": 2.0, "max": 2.0}, {"exponent": -12, "zeros": 0, "counts": "0*8192 1"}),
    ],
)
def test_a_range_at_the_bounds_of_what_is_possible_is_read(tmp_path, changes, histogram):
    wanted = {"min": -2.0, "max": 1.0, "amax": 2.0, "count": 4, **changes}
    found = read_ranges(stored(tmp_path, **changes, **({"histogram": histogram} if histogram else {})))
    seen = found.tensors[(), "x"]
    assert (seen.min, seen.max, seen.amax, seen.count) == tuple(wanted.values())
    assert (seen.histogram is None) == (histogram is None)


@pytest.mark.parametrize(
    "changes",
    [
        {"min": 3.0},
        {"min": None},
        {"max": None},
        {"amax": 1.5},
        {"amax": 3.0},
        {"amax": -2.0},
        {"count": 0},
        {"count": -1},
        {"unreadable": "why"},
        {"min": None, "max": 2.0},
        {"min": None, "max": None, "amax": 0.0, "count": 2},
        {"min": 0.0, "max": None, "amax": 0.0, "count": 0},
        {"min": None, "max": 0.0, "amax": 0.0, "count": 0},
        {"min": 0.0, "max": 0.0, "amax": 0.0, "count": 0},
        {"min": None, "max": None, "amax": 1.0, "count": 0},
        {"min": None, "max": None, "amax": 0.0, "count": 0, "histogram": {**HISTOGRAM, "zeros": 0, "counts": ""}},
    ],
)
def test_what_a_range_contradicts_itself_in_is_listed(tmp_path, changes):
    path = stored(tmp_path, **changes)
    text = ", ".join(
        f"{key} {value}" for key, value in (ENTRY | changes).items() if key in {"min", "max", "amax", "count"}
    )
    with refused(UsageError, f"ranges {path}: tensor 'x' has {text}, which contradict each other"):
        read_ranges(path)


@pytest.mark.parametrize(
    ("bounds", "is_read"),
    [
        ((0, 3, 0), True),
        ((0, 3, 3), True),
        ((1, 1, 1), True),
        ((-1, 3, 0), False),
        ((2, 3, 1), False),
        ((0, 2, 3), False),
        ((0, 4, 3), False),
    ],
)
def test_a_part_has_its_bounds_in_order(tmp_path, bounds, is_read):
    ranges = Ranges(RECORD, part=RangesPart(*bounds))
    if is_read:
        assert again(tmp_path, ranges).part == RangesPart(*bounds)
        return
    with pytest.raises(UsageError, match=f"start {bounds[0]}, done {bounds[2]} and stop {bounds[1]}; they must not"):
        again(tmp_path, ranges)


def test_one_name_in_two_scopes_is_two_tensors(tmp_path):
    ranges = Ranges(RECORD, {((), "x"): range_of([1.0]), (("s",), "x"): range_of([2.0])})
    assert again(tmp_path, ranges) == ranges


def test_a_file_is_indented_and_ends_with_a_line_break():
    lines = encode_ranges(Ranges(RECORD)).split(b"\n")
    assert lines[:2] == [b"{", b'  "schema_version": 2,']
    assert lines[-2:] == [b"}", b""]


@pytest.mark.parametrize(("spare", "is_read"), [(0, True), (-1, False)])
def test_a_file_that_is_too_large_is_not_read(tmp_path, monkeypatch, spare, is_read):
    assert file.MAX_RANGES_BYTES == 256 << 20
    path = stored(tmp_path)
    monkeypatch.setattr(file, "MAX_RANGES_BYTES", path.stat().st_size + spare)
    if is_read:
        assert read_ranges(path).tensors
        return
    with refused(UsageError, f"ranges {path} is larger than 0 MiB"):
        read_ranges(path)


def test_batchnorm_of_version_1_is_a_step_only_where_it_was_folded(tmp_path):
    path = stored(tmp_path)
    document = json.loads(path.read_text())
    document["model"] = {"sha256": "m", "batchnorm_folded": False}
    path.write_text(json.dumps(document))
    assert read_ranges(path).record.preparation == ()


def test_another_version_has_a_hint_and_no_backticks_of_the_decoder(tmp_path):
    path = tmp_path / "r.json"
    path.write_text('{"schema_version": 2}')
    with pytest.raises(UsageError) as caught:
        read_ranges(path)
    assert caught.value.message == f"ranges {path} is no ranges file: Object missing required field 'model'"
    assert caught.value.hint.startswith("`qdqtool calibrate MODEL --calib-data DATA -o RANGES` writes a ranges file; ")
