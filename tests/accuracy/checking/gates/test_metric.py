"""The gates on a task metric: which losses pass, and what is compared with what."""

import math
from types import SimpleNamespace

import pytest

from qdqtool.accuracy.checking.gates import metric
from qdqtool.accuracy.checking.limits import Gates
from qdqtool.accuracy.checking.report import MetricResult


def results(limit: float | None, **losses: float | str | None) -> list:
    empty = dict.fromkeys(MetricResult.__dataclass_fields__)
    found = MetricResult(
        **{**empty, "name": "top-1", "loss_unit": "points", "loss": None, "saved_loss": None, **losses}
    )
    evidence = SimpleNamespace(metric=found, job=SimpleNamespace(gates=Gates(max_metric_loss=limit)))
    return list(metric.results(evidence))


@pytest.mark.parametrize(
    ("loss", "passed"), [(0.5, True), (0.500001, False), (-3.0, True), (0.0, True), (math.nan, False)]
)
def test_a_loss_up_to_the_limit_passes_and_nan_does_not(loss: float, passed: bool) -> None:
    (gate,) = results(0.5, loss=loss)
    assert (gate.name, gate.passed) == ("max-metric-loss", passed)
    assert bool(gate.failures) is not passed


def test_the_limit_zero_is_a_limit() -> None:
    (gate,) = results(0.0, loss=0.001)
    assert gate.failures == ("max-metric-loss is 0 points: top-1 is worse than the baseline by 0.001 points",)


def test_without_a_limit_or_a_comparison_there_is_no_gate() -> None:
    assert results(None, loss=50.0, saved_loss=50.0) == []
    assert results(0.5) == []


def test_a_reference_at_chance_fails_whatever_the_loss() -> None:
    of_model, of_saved = results(50.0, loss=-1.0, saved_loss=0.0, chance=None, baseline_chance="3 of 30 are right")
    assert of_model.failures == (
        "max-metric-loss shows nothing: top-1 of the baseline is at chance: 3 of 30 are right",
    )
    assert of_saved.passed


def test_saved_outputs_are_compared_with_the_model() -> None:
    of_model, of_saved = results(1.0, loss=0.2, saved_loss=1.5)
    assert (of_model.passed, of_saved.passed) == (True, False)
    assert of_saved.name == "outputs-max-metric-loss"
    assert of_saved.failures == ("outputs-max-metric-loss is 1 points: top-1 is worse than the model by 1.5 points",)


def test_without_a_metric_there_is_no_gate() -> None:
    evidence = SimpleNamespace(metric=None, job=SimpleNamespace(gates=Gates(max_metric_loss=0.5)))
    assert list(metric.results(evidence)) == []
