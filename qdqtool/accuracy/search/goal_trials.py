"""Models of states of a search, as they are measured on samples that chose nothing."""

from __future__ import annotations

from dataclasses import dataclass, field

from qdqtool.accuracy.layers.step import Step
from qdqtool.accuracy.search.accuracy_goal import AccuracyGoal, worst_db
from qdqtool.accuracy.search.attempt import Attempt, Attempts
from qdqtool.accuracy.search.goal_report import CurvePoint, GoalReport
from qdqtool.accuracy.search.search_curve import Raised, SearchCurve
from qdqtool.accuracy.task_metrics.result import MetricResult


@dataclass(frozen=True, slots=True)
class Reached:
    """A model that keeps the goal.

    Attributes:
        attempt: The model.
        report: How it was found; None where every layer is quantized.
        curve: The states that the search came by.
        search: The same with all that is known of each; None where nothing was searched.
    """

    attempt: Attempt
    report: GoalReport | None = None
    curve: tuple[CurvePoint, ...] = ()
    search: SearchCurve | None = None


def metric_of(attempt: Attempt) -> MetricResult:
    """Return the task metric of a model that was measured."""
    accuracy = attempt.measured.accuracy
    assert accuracy is not None
    assert accuracy.metric is not None
    return accuracy.metric


@dataclass(frozen=True, slots=True)
class Trial:
    """A model, and what it keeps on the samples that measure."""

    attempt: Attempt
    step: Step
    worst_db: float | None
    loss: float


@dataclass(slots=True)
class Trials:
    """Makes the models of states, each once, and measures them on the samples that measure."""

    attempts: Attempts
    first: Attempt
    goal: AccuracyGoal
    made: dict[Raised, Trial] = field(default_factory=dict)

    def at(self, step: Step) -> Trial:
        """Return the model of a state; errors as :meth:`~qdqtool.accuracy.search.attempt.Attempts.leaving`."""
        if step.raised not in self.made:
            attempt = self.attempts.leaving(step, self.first) if step.share else self.first
            loss = metric_of(attempt).loss
            assert loss is not None
            self.made[step.raised] = Trial(attempt, step, worst_db(attempt.measured.accuracy), loss)
        return self.made[step.raised]

    def keeps(self, step: Step) -> bool:
        """Return whether the model of a state keeps the goal."""
        trial = self.at(step)
        return self.goal.is_kept(trial.worst_db, trial.loss)
