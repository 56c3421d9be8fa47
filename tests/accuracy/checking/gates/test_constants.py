"""What the gate on constants reports of a comparison."""

from types import SimpleNamespace

import pytest

from qdqtool.accuracy.checking.gates.constants import results
from qdqtool.accuracy.checking.report import GateResult
from qdqtool.accuracy.layers.float_form import FloatForm


def gate(form: FloatForm) -> GateResult:
    (found,) = results(SimpleNamespace(job=SimpleNamespace(float_form=form)))
    return found


@pytest.mark.parametrize(
    ("form", "detail"),
    [
        (FloatForm(), "no difference that matters"),
        (FloatForm(corrected=3), "3 corrected or rounded"),
        (FloatForm(unknown="no data"), "SKIPPED: no data"),
        (FloatForm(structure="the model lacks Relu 'r'"), "SKIPPED: the graphs differ"),
    ],
)
def test_what_passes(form: FloatForm, detail: str) -> None:
    found = gate(form)
    assert (found.name, found.passed, found.detail, found.failures) == ("constants", True, detail, ())


def test_each_constant_is_a_failure_with_the_option_for_trained_models() -> None:
    found = gate(FloatForm(constants=("'b' at Conv 'c'", "'d' at Conv 'e'"), corrected=1))
    assert (found.passed, found.detail) == (False, "2 faults")
    option = " (trained again? --max-weight-steps inf skips this gate)"
    assert found.failures == (f"'b' at Conv 'c'{option}", f"'d' at Conv 'e'{option}")
    assert gate(FloatForm(constants=("'b' at Conv 'c'",))).detail == "1 fault"


def test_without_a_comparison_there_is_no_gate() -> None:
    assert list(results(SimpleNamespace(job=SimpleNamespace(float_form=None)))) == []
