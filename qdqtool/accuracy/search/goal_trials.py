"""Models of states of a search, as they are measured on samples that chose nothing."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from qdqtool.accuracy.layers.layer_metric import MetricRuns
from qdqtool.accuracy.layers.output_noise import WORST_DB
from qdqtool.accuracy.layers.search import CURVE_STEP_DB, FloatSearch
from qdqtool.accuracy.layers.step import Step
from qdqtool.accuracy.search.accuracy_goal import AccuracyGoal, worst_db
from qdqtool.accuracy.search.attempt import Attempt, Attempts
from qdqtool.accuracy.search.goal_report import CurvePoint, GoalReport, told_levels
from qdqtool.accuracy.search.search_curve import Raised, SearchCurve
from qdqtool.accuracy.task_metrics.measure import MetricResult, Score


@dataclass(slots=True)
class Choosing:
    """The states of a search, and what the metric loses in each on the samples that may choose.

    Attributes:
        search: The search.
        runs: The metric in its session.
        goal: The goal, with a limit of the metric.
        reference: The score of the float model.
        losses: The loss of each state in which the metric was measured.
    """

    search: FloatSearch
    runs: MetricRuns
    goal: AccuracyGoal
    reference: Score
    losses: dict[Raised, float] = field(default_factory=dict)

    def loss(self, step: Step) -> float:
        """Return what the metric loses in a state."""
        if step.raised not in self.losses:
            score = self.runs.score(self.search.setting(step), f"the model with {told_levels(step, self.search)}")
            self.losses[step.raised] = self.runs.measure.loss(score.value, self.reference.value)
        return self.losses[step.raised]

    def keeps(self, step: Step) -> bool:
        """Return whether a state keeps the goal."""
        # A search gives outputs that are not finite a finite figure.
        worst_db = step.worst_db if step.worst_db > -WORST_DB else -math.inf
        # Noise is known; the metric takes a run of every sample.
        return self.goal.is_kept(worst_db, -math.inf) and self.goal.is_kept(worst_db, self.loss(step))

    def cheapest(self, above_db: float) -> Step | None:
        """Return the cheapest state of at least that SQNR that keeps the goal; the search goes on as far as needed."""
        while not (states := self._from(above_db)) or not self.keeps(states[-1]):
            if not self.go_on():
                return None
        return first_that(states, self.keeps)

    def go_on(self) -> bool:
        """Search for a state of :data:`CURVE_STEP_DB` more; return whether there is one."""
        if not self.search.steps:
            self.search.reach(-math.inf)
            return True
        last = self.search.steps[-1]
        if not math.isfinite(last.worst_db):
            return False
        return self.search.reach(last.worst_db + CURVE_STEP_DB).worst_db > last.worst_db

    def _from(self, above_db: float) -> list[Step]:
        return [step for step in self.search.frontier() if step.worst_db >= above_db]


def first_that(states: Sequence[Step], keeps: Callable[[Step], bool]) -> Step:
    """Return the first state that keeps the goal, of which the last is one, by bisection."""
    low, high = -1, len(states) - 1
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if keeps(states[middle]) else (middle, high)
    return states[high]


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
