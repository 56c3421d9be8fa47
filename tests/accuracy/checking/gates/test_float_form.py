"""What the gates on constants and graph report of a comparison."""

from types import SimpleNamespace

import pytest

from qdqtool.accuracy.checking.gates.float_form import results
from qdqtool.accuracy.checking.report import GateResult
from qdqtool.accuracy.layers.float_form import FloatForm

BIAS = "'b' at Conv 'c'"


def found_for(form: FloatForm | None) -> list[GateResult]:
    return list(results(SimpleNamespace(job=SimpleNamespace(float_form=form))))


def gates(form: FloatForm) -> tuple[GateResult, GateResult]:
    constants, structure = found_for(form)
    assert (constants.name, structure.name) == ("constants", "structure")
    return constants, structure


@pytest.mark.parametrize(
    ("form", "constants", "structure"),
    [
        (FloatForm(), "no difference that matters", "every output is equal"),
        (FloatForm(corrected=3, lowest_db=71.26), "3 corrected or rounded", "worst output 71.3 dB"),
    ],
)
def test_what_passes(form: FloatForm, constants: str, structure: str) -> None:
    found = gates(form)
    assert [(gate.passed, gate.failures) for gate in found] == [(True, ())] * 2
    assert [gate.detail for gate in found] == [constants, structure]


def test_each_constant_is_a_failure_with_the_option_for_trained_models() -> None:
    found, structure = gates(FloatForm(constants=(BIAS, "'d' at Conv 'e'"), corrected=1, lowest_db=71.26))
    assert (found.passed, found.detail) == (False, "2 faults")
    option = " (trained again? --max-weight-steps inf skips this gate)"
    assert found.failures == (f"{BIAS}{option}", f"'d' at Conv 'e'{option}")
    assert gates(FloatForm(constants=(BIAS,)))[0].detail == "1 fault"
    assert (structure.passed, structure.detail) == (True, "worst output 71.3 dB")


def test_a_bias_that_random_data_cannot_judge_is_a_warning() -> None:
    constants, structure = gates(FloatForm(doubtful=(BIAS,)))
    assert constants.passed
    assert constants.warnings == (f"{BIAS}; give --data, which shows whether it is a correction",)
    assert structure.warnings == ()


def test_another_graph_is_a_failure() -> None:
    """Constants of other graphs are not judged."""
    (found,) = found_for(FloatForm(structure="output 'y' keeps 9.4 dB of the 60 needed; the model lacks Relu 'r'"))
    assert (found.name, found.passed, found.detail) == ("structure", False, "the graphs differ")
    assert found.failures == ("without Q and DQ, output 'y' keeps 9.4 dB of the 60 needed; the model lacks Relu 'r'",)


@pytest.mark.parametrize("form", [None, FloatForm(unknown="no output of the baseline is a float")])
def test_without_a_comparison_no_gate_holds(form: FloatForm | None) -> None:
    assert found_for(form) == []
