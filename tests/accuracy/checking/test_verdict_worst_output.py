"""The worst output is the one with the lowest SQNR, or with most wrong elements; exact ones do not count."""

from dataclasses import replace

import pytest

from qdqtool.accuracy.checking.report import GateResult, OutputResult, WorstOutput
from qdqtool.accuracy.checking.verdict import worst_output

ACCURACY = GateResult(name="accuracy", requires="", passed=True, detail="")
MIN_SQNR = GateResult(name="min-sqnr", requires="", passed=True, detail="")


def output(name: str, **found: object) -> OutputResult:
    return OutputResult(**{"name": name, "nonfinite": 0, "exact": False, **found})


def test_exact_outputs_and_those_that_were_not_compared_have_no_worst() -> None:
    assert worst_output([output("a", exact=True), output("b", exact=None)], [ACCURACY]) is None


def test_floats_compare_by_their_ratio_and_name_the_strictest_gate() -> None:
    outputs = [output("a", sqnr_db=30.0), output("b", sqnr_db=12.0)]
    found = worst_output(outputs, [ACCURACY, MIN_SQNR])
    assert found is not None
    assert (found.name, found.gate, found.sqnr_db) == ("b", "min-sqnr", 12.0)


def test_wrong_elements_compare_with_floats_as_noise() -> None:
    """90 % that agree are one tenth that is wrong: 10 dB."""
    labels = output("labels", agreement=0.9, sqnr_db=80.0)
    for ratio, worst in ((9.0, "y"), (11.0, "labels")):
        found = worst_output([output("y", sqnr_db=ratio), labels], [ACCURACY, MIN_SQNR])
        assert found is not None
        assert found.name == worst
    assert (found.gate, found.sqnr_db, found.agreement) == ("accuracy", None, 0.9)


def test_an_output_whose_reference_is_zero_shows_its_error() -> None:
    found = worst_output([output("y", zero_reference=True, max_abs=0.25)], [ACCURACY])
    assert found is not None
    assert (found.sqnr_db, found.max_abs) == (None, 0.25)


@pytest.mark.parametrize("others", [[], [0.0], [None, 5.0], [-3.0, 7.0]])
def test_the_lowest_ratio_is_the_worst_and_an_undefined_one_is_nothing(others: list[float | None]) -> None:
    outputs = [output("y", sqnr_db=12.0), *(output(f"o{n}", sqnr_db=db) for n, db in enumerate(others))]
    found = worst_output(outputs, [])
    ratios = [0.0 if each.sqnr_db is None else each.sqnr_db for each in outputs]
    assert found is not None
    assert found.name == outputs[ratios.index(min(ratios))].name
    assert found.gate == "accuracy"


def test_labels_are_judged_by_their_own_gate_and_show_no_ratio() -> None:
    gates = [ACCURACY, replace(MIN_SQNR, name="min-agreement")]
    found = worst_output([output("labels", agreement=0.5, sqnr_db=3.0, max_abs=2.0)], gates)
    assert found == WorstOutput(name="labels", gate="min-agreement", sqnr_db=None, agreement=0.5, max_abs=None)
    found = worst_output([output("y", sqnr_db=3.0, max_abs=2.0)], gates)
    assert found == WorstOutput(name="y", gate="accuracy", sqnr_db=3.0, agreement=None, max_abs=None)


def test_labels_that_all_agree_in_other_shapes_are_better_than_any_float() -> None:
    outputs = [output("labels", agreement=1.0), output("y", sqnr_db=200.0)]
    found = worst_output(outputs, [])
    assert found is not None
    assert found.name == "y"
