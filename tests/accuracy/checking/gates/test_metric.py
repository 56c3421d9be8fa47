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
    assert results(None, loss=5.0, saved_loss=50.0, output="y", baseline=100.0, predictions=1000) == []
    assert results(None, loss=50.0, baseline=100.0, predictions=1000) == []  # of a function of the user
    assert results(0.5) == []


@pytest.mark.parametrize(
    ("name", "baseline", "predictions", "loss", "passed"),
    [
        ("top-1", 100.0, 1000, 5.0, True),
        ("top-1", 100.0, 1000, 5.1, False),
        ("top-1", 100.0, 1000, math.nan, False),
        ("top-1", 100.0, 40, 10.0, True),  # four predictions
        ("top-1", 100.0, 40, 12.5, False),  # five
        ("top-1", 50.0, 200, 9.5, True),  # two standard errors of the difference are 10
        ("top-1", 50.0, 200, 10.5, False),
        ("perplexity", 20.0, 100, 20.0, True),
        ("perplexity", 20.0, 100, 20.1, False),
    ],
)
def test_a_large_loss_fails_without_a_limit(
    name: str, baseline: float, predictions: int, loss: float, passed: bool
) -> None:
    gates = results(None, name=name, output="y", baseline=baseline, predictions=predictions, loss=loss)
    assert [gate.passed for gate in gates] == ([] if passed else [False])


def test_a_large_loss_names_the_limit() -> None:
    (gate,) = results(None, output="y", baseline=100.0, predictions=500, loss=73.0)
    assert gate.name == "max-metric-loss"
    assert gate.failures == ("top-1 is worse than the baseline by 73 points; without --max-metric-loss, 5 points pass",)


def test_a_reference_at_chance_fails_whatever_the_loss() -> None:
    of_model, of_saved = results(50.0, loss=-1.0, saved_loss=0.0, chance=None, baseline_chance="3 of 30 are right")
    assert of_model.failures == (
        "max-metric-loss shows nothing: top-1 of the baseline is no better than guessing: 3 of 30 are right",
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


@pytest.mark.parametrize(("distinct", "passed"), [(200, True), (199, False), (1, False)])
def test_a_limit_that_distinct_samples_cannot_resolve_fails(distinct: int, passed: bool) -> None:
    (gate,) = results(0.5, loss=0.0, output="y", baseline=100.0, predictions=200, distinct_predictions=distinct)
    assert gate.passed is passed
    what = f"{distinct} prediction{'s' * (distinct > 1)}"
    told = (
        f"max-metric-loss is 0.5 points: one of the {what} on distinct inputs is {100 / distinct:.3g} percentage "
        "points, so that they cannot show such a loss"
    )
    assert gate.failures == (() if passed else (told,))
    (gate,) = results(0.5, name="perplexity", loss=0.0, output="y", distinct_predictions=1)
    assert gate.passed


@pytest.mark.parametrize(("distinct", "passed"), [(1000, False), (4, True)])
def test_copies_of_samples_do_not_show_a_large_loss(distinct: int, passed: bool) -> None:
    losses = {"output": "y", "baseline": 100.0, "loss": 50.0, "predictions": 1000, "distinct_predictions": distinct}
    assert [gate.passed for gate in results(None, **losses)] == ([] if passed else [False])
