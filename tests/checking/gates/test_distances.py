"""The gates on distances: which values pass a limit, what is told, and under which name."""

import math

import pytest

from qdqtool.checking.gates.distances import distance_gates
from qdqtool.checking.report import BoundaryResult, Gates, OutputResult


def output(name: str, **found: object) -> OutputResult:
    empty = dict.fromkeys(OutputResult.__dataclass_fields__)
    return OutputResult(**{**empty, "name": name, "nonfinite": 0, "exact": False, **found})


def boundary(steps: float) -> BoundaryResult:
    empty = dict.fromkeys(BoundaryResult.__dataclass_fields__)
    return BoundaryResult(**{**empty, "kind": "activation", "tensor": "t", "node": "Q1", "max_steps": steps})


def test_without_limits_there_are_no_gates() -> None:
    assert list(distance_gates([output("y", sqnr_db=-60.0)], [output("y", sqnr_db=-60.0)], Gates())) == []


@pytest.mark.parametrize(("found", "passed"), [(29.999, False), (30.0, True), (30.001, True), (None, False)])
def test_min_sqnr_lets_through_what_reaches_it_and_an_undefined_ratio_fails(found: float | None, passed: bool) -> None:
    (gate,) = distance_gates([output("y", sqnr_db=found)], [], Gates(min_sqnr=30))
    assert (gate.name, gate.passed, gate.passed) == ("min-sqnr", passed, not gate.failures)


def test_an_exact_output_reaches_every_limit() -> None:
    exact = [output("y", exact=True)]
    gates = list(distance_gates(exact, exact, Gates(min_sqnr=1e9, min_cosine=1.0)))
    assert [gate.passed for gate in gates] == [True, True]


def test_every_output_below_the_limit_is_named_and_the_worst_is_the_detail() -> None:
    floats = [output("a", sqnr_db=12.0), output("b", sqnr_db=40.0), output("c", sqnr_db=3.5)]
    (gate,) = distance_gates(floats, floats, Gates(min_sqnr=30))
    assert gate.failures == (
        "output 'a': min-sqnr is 30 dB, found 12 dB",
        "output 'c': min-sqnr is 30 dB, found 3.5 dB",
    )
    assert gate.detail == "worst 3.5 dB at 'c'"


@pytest.mark.parametrize(("found", "passed"), [(0.9899, False), (0.99, True), (None, False), (math.nan, False)])
def test_min_cosine(found: float | None, passed: bool) -> None:
    (gate,) = distance_gates([output("y", cosine=found)], [], Gates(min_cosine=0.99))
    assert gate.passed is passed


@pytest.mark.parametrize(("steps", "passed"), [(2.0, True), (2.0001, False)])
def test_max_steps_judges_outputs_and_boundaries(steps: float, passed: bool) -> None:
    (of_output,) = distance_gates([], [output("y", max_steps=steps)], Gates(max_steps=2))
    (of_boundary,) = distance_gates([], [], Gates(max_steps=2), boundaries=[boundary(1.0), boundary(steps)])
    assert (of_output.passed, of_boundary.passed) == (passed, passed)
    assert of_boundary.detail == f"worst {steps:.6g} at activation 't' at 'Q1'"


def test_outputs_that_no_dq_makes_have_no_steps() -> None:
    (gate,) = distance_gates([], [output("y", max_steps=None)], Gates(max_steps=0))
    assert (gate.passed, gate.detail) == (True, "nothing quantized was compared")


def test_saved_outputs_have_gates_of_their_own_name() -> None:
    found = [output("y", sqnr_db=1.0, cosine=0.1, max_steps=9.0)]
    gates = list(distance_gates(found, found, Gates(min_sqnr=30, min_cosine=0.9, max_steps=1), what="saved output"))
    assert [gate.name for gate in gates] == ["outputs-min-sqnr", "outputs-min-cosine", "outputs-max-steps"]
    assert all(gate.failures[0].startswith("saved output 'y'") for gate in gates)
