"""What the gate on the graph reports of a comparison."""

from types import SimpleNamespace

import pytest

from qdqtool.accuracy.checking.gates.structure import results
from qdqtool.accuracy.checking.report import GateResult
from qdqtool.accuracy.layers.float_form import FloatForm


def gate(form: FloatForm) -> GateResult:
    (found,) = results(SimpleNamespace(job=SimpleNamespace(float_form=form)))
    return found


@pytest.mark.parametrize(
    ("form", "detail"),
    [
        (FloatForm(), "every output is equal"),
        (FloatForm(lowest_db=71.26, constants=("'b' at Conv 'c'",)), "worst output 71.3 dB"),
        (FloatForm(unknown="no data"), "SKIPPED: no data"),
    ],
)
def test_what_passes(form: FloatForm, detail: str) -> None:
    found = gate(form)
    assert (found.name, found.passed, found.detail, found.failures) == ("structure", True, detail, ())


def test_another_graph_is_a_failure() -> None:
    found = gate(FloatForm(structure="output 'y' keeps 9.4 dB of the 60 needed; the model lacks Relu 'r'"))
    assert (found.passed, found.detail) == (False, "the graphs differ")
    assert found.failures == ("without Q and DQ, output 'y' keeps 9.4 dB of the 60 needed; the model lacks Relu 'r'",)


def test_without_a_comparison_there_is_no_gate() -> None:
    assert list(results(SimpleNamespace(job=SimpleNamespace(float_form=None)))) == []
