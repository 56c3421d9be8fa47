"""The gates on distances: which values pass a limit, what is told, and under which name."""

import math

import pytest

from qdqtool.accuracy.checking.gates.distances import ComparedOutputs, distance_gates
from qdqtool.accuracy.checking.limits import Gates
from qdqtool.accuracy.checking.report import BoundaryResult, GateResult, OutputResult


def output(name: str, **found: object) -> OutputResult:
    empty = dict.fromkeys(OutputResult.__dataclass_fields__)
    known = {"name": name, "nonfinite": 0, "exact": False, "zero_reference": False, "other_shapes": 0}
    return OutputResult(**{**empty, **known, **found})


def judge(outputs: list[OutputResult], limits: Gates, **more: object) -> list[GateResult]:
    return list(distance_gates(ComparedOutputs(outputs, **more), limits))


def boundary(steps: float) -> BoundaryResult:
    empty = dict.fromkeys(BoundaryResult.__dataclass_fields__)
    return BoundaryResult(**{**empty, "kind": "activation", "tensor": "t", "node": "Q1", "max_steps": steps})


def test_without_limits_there_are_no_gates() -> None:
    assert judge([output("y", sqnr_db=-60.0)], Gates()) == []


@pytest.mark.parametrize(("found", "passed"), [(29.999, False), (30.0, True), (30.001, True), (None, False)])
def test_min_sqnr_lets_through_what_reaches_it_and_an_undefined_ratio_fails(found: float | None, passed: bool) -> None:
    (gate,) = judge([output("y", sqnr_db=found)], Gates(min_sqnr=30))
    assert (gate.name, gate.passed, gate.passed) == ("min-sqnr", passed, not gate.failures)


def test_an_exact_output_reaches_every_limit() -> None:
    exact = [output("y", exact=True)]
    gates = judge(exact, Gates(min_sqnr=1e9, min_cosine=1.0))
    assert [gate.passed for gate in gates] == [True, True]


def test_every_output_below_the_limit_is_named_and_the_worst_is_the_detail() -> None:
    floats = [output("a", sqnr_db=12.0), output("b", sqnr_db=40.0), output("c", sqnr_db=3.5)]
    (gate,) = judge(floats, Gates(min_sqnr=30))
    assert gate.failures == (
        "output 'a': min-sqnr is 30 dB, found 12 dB",
        "output 'c': min-sqnr is 30 dB, found 3.5 dB",
    )
    assert gate.detail == "worst 3.5 dB at 'c'"
    assert (gate.limit, gate.missed_by) == (30, ("a", "c"))


@pytest.mark.parametrize(("found", "passed"), [(0.9899, False), (0.99, True), (None, False), (math.nan, False)])
def test_min_cosine(found: float | None, passed: bool) -> None:
    (gate,) = judge([output("y", cosine=found)], Gates(min_cosine=0.99))
    assert gate.passed is passed


@pytest.mark.parametrize(("steps", "passed"), [(2.0, True), (2.0001, False)])
def test_max_steps_judges_outputs_and_boundaries(steps: float, passed: bool) -> None:
    (of_output,) = judge([output("y", max_steps=steps)], Gates(max_steps=2))
    (of_boundary,) = judge([], Gates(max_steps=2), boundaries=[boundary(1.0), boundary(steps)])
    assert (of_output.passed, of_boundary.passed) == (passed, passed)
    assert of_boundary.detail == f"worst {steps:.6g} at activation 't' at 'Q1'"


def test_a_limit_in_steps_that_nothing_was_held_to_fails() -> None:
    (gate,) = judge([output("y", max_steps=None)], Gates(max_steps=0))
    assert (gate.passed, gate.detail) == (False, "nothing quantized was compared")


def test_a_limit_in_steps_fails_where_a_quantized_tensor_has_no_counterpart() -> None:
    (gate,) = judge([], Gates(max_steps=2), boundaries=[boundary(1.0)], unmatched=["Q 'q' was not compared: why"])
    assert gate.failures == ("max-steps: Q 'q' was not compared: why",)


@pytest.mark.parametrize(("share", "passed"), [(0.03, False), (0.8999, False), (0.9, True), (1.0, True)])
@pytest.mark.parametrize("limit", [{"min_sqnr": 30}, {"min_cosine": 0.9}, {"min_agreement": 0.9}])
def test_outputs_of_integers_are_judged_by_the_share_that_agrees(share: float, passed: bool, limit: dict) -> None:
    (gate,) = judge([output("label", agreement=share, sqnr_db=50.0, cosine=1.0)], Gates(**limit))
    assert (gate.name, gate.passed) == ("min-agreement", passed)


def test_floats_and_integers_of_one_model_have_a_gate_each() -> None:
    gates = judge([output("y", sqnr_db=40.0), output("label", agreement=0.5)], Gates(min_sqnr=30))
    assert [(gate.name, gate.passed) for gate in gates] == [("min-sqnr", True), ("min-agreement", False)]


@pytest.mark.parametrize("limit", [{"min_sqnr": 30}, {"min_cosine": 0.9}, {"min_agreement": 0.9}])
@pytest.mark.parametrize(
    ("outputs", "reason"),
    [
        ([], "there is no output that it could judge"),
        ([output("y", exact=None)], "output 'y' has no elements that could be compared"),
        (
            [output("y", exact=None, other_shapes=2, differing_shapes=((1, 3), (1, 4)))],
            "output 'y' has another shape in 2 samples: [1, 3] against [1, 4], not compared",
        ),
    ],
)
def test_a_limit_that_no_output_was_held_to_fails(outputs: list[OutputResult], reason: str, limit: dict) -> None:
    (gate,) = judge(outputs, Gates(**limit))
    assert gate.failures == (f"{next(iter(limit)).replace('_', '-')}: {reason}",)


def test_a_limit_fails_where_some_samples_of_an_output_were_not_compared() -> None:
    (gate,) = judge(
        [output("boxes", sqnr_db=50.0, other_shapes=2, differing_shapes=((3, 4), (2, 4)))], Gates(min_sqnr=30)
    )
    assert gate.failures == (
        "min-sqnr: output 'boxes' has another shape in 2 samples: [3, 4] against [2, 4], not compared",
    )


@pytest.mark.parametrize(("error", "passed"), [(0.1, True), (0.101, False), (math.nan, False)])
def test_an_output_whose_reference_is_zero_is_judged_by_its_largest_error(error: float, passed: bool) -> None:
    (gate,) = judge([output("y", zero_reference=True, max_abs=error)], Gates(min_sqnr=20))
    assert gate.passed is passed


def test_saved_outputs_have_gates_of_their_own_name() -> None:
    found = [output("y", sqnr_db=1.0, cosine=0.1, max_steps=9.0)]
    gates = judge(found, Gates(min_sqnr=30, min_cosine=0.9, max_steps=1), what="saved output")
    assert [gate.name for gate in gates] == ["outputs-min-sqnr", "outputs-min-cosine", "outputs-max-steps"]
    assert all(gate.failures[0].startswith("saved output 'y'") for gate in gates)


@pytest.mark.parametrize("limit", [{"min_sqnr": 30}, {"min_cosine": 0.9}])
def test_a_float_that_was_not_compared_fails_beside_integers_that_agree(limit: dict) -> None:
    gates = judge([output("label", agreement=1.0), output("y", exact=None)], Gates(**limit))
    reason = "output 'y' has no elements that could be compared"
    name = next(iter(limit)).replace("_", "-")
    assert [gate.failures for gate in gates] == [(f"{name}: {reason}",), (f"min-agreement: {reason}",)]


def test_integers_alone_have_no_gate_for_floats_and_none_without_a_limit() -> None:
    label = output("label", agreement=0.0)
    assert [gate.name for gate in judge([label], Gates(min_sqnr=30, min_cosine=0.5))] == ["min-agreement"]
    assert [gate.name for gate in judge([label], Gates(max_steps=2))] == ["max-steps"]


def test_the_share_that_agrees_least_is_named() -> None:
    labels = [output("a", agreement=0.75), output("b", agreement=0.0), output("c", agreement=0.95)]
    (gate,) = judge(labels, Gates(min_agreement=0.9))
    assert gate.detail == "worst 0 at 'b'"
    assert gate.failures == (
        "output 'a': min-agreement is 0.9, found 0.75",
        "output 'b': min-agreement is 0.9, found 0",
    )
    assert gate.requires == "0.9 of the elements of every integer, boolean and string output agree"


def test_the_cosine_of_an_exact_output_is_one() -> None:
    (gate,) = judge([output("y", exact=True), output("z", cosine=0.5)], Gates(min_cosine=0.9))
    assert (gate.detail, gate.failures) == ("worst 0.5 at 'z'", ("output 'z': min-cosine is 0.9, found 0.5",))
    assert judge([output("y", exact=True)], Gates(min_cosine=0.9))[0].detail == "worst 1 at 'y'"


def test_gates_on_floats_say_what_they_require() -> None:
    gates = judge(
        [output("y", sqnr_db=50.0, cosine=1.0, max_steps=0.0)], Gates(min_sqnr=30, min_cosine=0.9, max_steps=1)
    )
    assert [(gate.requires, gate.detail) for gate in gates] == [
        ("at least 30 dB at every float output", "worst 50 dB at 'y'"),
        ("at least 0.9 at every float output", "worst 1 at 'y'"),
        ("no quantized tensor is further than 1 steps off", "worst 0 at output 'y'"),
    ]


def test_a_reference_of_zeros_has_no_worst_ratio() -> None:
    (gate,) = judge([output("y", zero_reference=True, max_abs=1.0)], Gates(min_sqnr=20))
    assert gate.detail == "no output with an error"
    assert gate.failures == (
        "output 'y': min-sqnr is 20 dB, the reference is 0 everywhere, and the error 1 exceeds 0.1",
    )


def test_the_furthest_of_outputs_and_boundaries_is_named() -> None:
    outputs = [output("a", max_steps=1.0), output("b", max_steps=7.0), output("c", max_steps=None)]
    (gate,) = judge(outputs, Gates(max_steps=3), boundaries=[boundary(5.0)])
    assert gate.detail == "worst 7 at output 'b'"
    assert gate.failures == (
        "output 'b' is 7 steps off; max-steps is 3",
        "activation 't' at 'Q1' is 5 steps off; max-steps is 3",
    )
