"""Models of states, each made once; states that differ in any layer are different models."""

from types import SimpleNamespace

import pytest

from qdqtool.accuracy.checking.accuracy import Accuracy, OutputAccuracy
from qdqtool.accuracy.layers.step import Step
from qdqtool.accuracy.layers.units import Unit
from qdqtool.accuracy.search.accuracy_goal import AccuracyGoal
from qdqtool.accuracy.search.goal_trials import Trials
from qdqtool.accuracy.task_metrics.measure import MetricResult

UNITS = [Unit((), (number,)) for number in range(3)]


def attempt(loss: float, *, finite: bool = True) -> SimpleNamespace:
    metric = MetricResult(
        name="m",
        output=None,
        unit="",
        loss_unit="",
        predictions=1,
        value=-loss,
        baseline=0.0,
        loss=loss,
        saved=None,
        saved_loss=None,
    )
    outputs = (OutputAccuracy(name="y", sqnr_db=20.0, exact=False, finite=finite),)
    return SimpleNamespace(measured=SimpleNamespace(accuracy=Accuracy(samples=1, outputs=outputs, metric=metric)))


class Attempts:
    """Makes models that lose 4, 2 and 1 for the quantized layers, and a tenth of that in the fallback."""

    def __init__(self) -> None:
        self.made: list[Step] = []

    def leaving(self, step: Step, first: object) -> SimpleNamespace:
        del first
        self.made.append(step)
        parts = [0.0 if unit in step.units else 0.1 if unit in step.fallback else 1.0 for unit in UNITS]
        return attempt(4 * parts[0] + 2 * parts[1] + parts[2], finite=UNITS[2] not in step.units)


def trials(attempts: Attempts, goal: AccuracyGoal) -> Trials:
    return Trials(attempts, attempt(7.0), goal)  # type: ignore[arg-type]


def state(units: list[int], fallback: list[int], share: float = 0.5) -> Step:
    return Step(tuple(UNITS[at] for at in units), share, 25.0, 0.0, tuple(UNITS[at] for at in fallback))


def test_states_with_the_same_float_layers_and_other_fallback_layers_are_different_models() -> None:
    attempts = Attempts()
    made = trials(attempts, AccuracyGoal(max_metric_loss=2))
    one, other, none = state([1], [0]), state([1], [2]), state([1], [])
    for _ in range(2):
        assert [made.at(each).loss for each in (one, other, none)] == pytest.approx([1.4, 4.1, 5.0])
        assert [made.keeps(each) for each in (one, other, none)] == [True, False, False]
    assert attempts.made == [one, other, none]


def test_the_state_with_all_layers_quantized_is_the_model_that_is_there() -> None:
    attempts = Attempts()
    made = trials(attempts, AccuracyGoal(max_metric_loss=7))
    assert made.at(state([], [], 0.0)).attempt is made.first
    assert made.keeps(state([], [], 0.0))
    assert attempts.made == []


def test_a_model_that_makes_infinity_keeps_no_limit_whatever_its_metric_says() -> None:
    made = trials(Attempts(), AccuracyGoal(max_metric_loss=100))
    assert [made.keeps(state([0], [])), made.keeps(state([2], []))] == [True, False]
