"""The states of a search that a task metric judges: in the session of the search, and as models of their own."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from qdqtool.jobs.accuracy_goal import AccuracyGoal, worst_db
from qdqtool.jobs.quantize_attempt import Attempt, Attempts
from qdqtool.preparation.layer_search import nodes_of
from qdqtool.sensitivity.effects import float_setting
from qdqtool.sensitivity.metric_runs import MetricRuns
from qdqtool.sensitivity.search import CURVE_STEP_DB, FloatSearch, Step
from qdqtool.sensitivity.units import Unit
from qdqtool.task_metrics.measure import Score
from qdqtool.task_metrics.result import MetricResult


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
    made: dict[tuple[Unit, ...], Trial] = field(default_factory=dict)

    def at(self, step: Step) -> Trial:
        """Return the model of a state; errors as :meth:`~qdqtool.jobs.quantize_attempt.Attempts.leaving`."""
        if step.units not in self.made:
            attempt = self.attempts.leaving(nodes_of(step.units), self.first) if step.units else self.first
            loss = metric_of(attempt).loss
            assert loss is not None
            self.made[step.units] = Trial(attempt, step, worst_db(attempt.measured.accuracy), loss)
        return self.made[step.units]

    def keeps(self, step: Step) -> bool:
        """Return whether the model of a state keeps the goal."""
        trial = self.at(step)
        return self.goal.is_kept(trial.worst_db, trial.loss)


@dataclass(slots=True)
class Choosing:
    """The states of a search, and what the metric loses in each on the samples that may choose."""

    search: FloatSearch
    runs: MetricRuns
    goal: AccuracyGoal
    reference: Score
    _losses: dict[tuple[Unit, ...], float] = field(default_factory=dict)

    def loss(self, step: Step) -> float:
        """Return what the metric loses in a state."""
        if step.units not in self._losses:
            score = self.runs.score(float_setting(step.units), f"the model with {len(step.units)} layers in float")
            self._losses[step.units] = self.runs.measure.loss(score.value, self.reference.value)
        return self._losses[step.units]

    def keeps(self, step: Step) -> bool:
        """Return whether a state keeps the goal."""
        # Noise is known; the metric takes a run of every sample.
        return self.goal.is_kept(step.worst_db, -math.inf) and self.goal.is_kept(step.worst_db, self.loss(step))

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
