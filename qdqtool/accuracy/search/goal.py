"""Find the cheapest model that keeps an accuracy target.

A search on the selection samples proposes a state. The model of this state is made, and measured on the hold-out
samples or the validation data. If it misses the target, the next proposal must keep more. After :data:`TRIALS` models
the hold-out samples choose among all states.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, field

from qdqtool.accuracy.layers.layer_runs import LayerRuns
from qdqtool.accuracy.layers.prediction import SearchState, StateKey
from qdqtool.accuracy.layers.search import FloatSearch
from qdqtool.accuracy.report import MetricResult
from qdqtool.accuracy.search.accuracy_goal import AccuracyGoal, worst_db
from qdqtool.accuracy.search.candidate import Candidate, CandidateFactory
from qdqtool.accuracy.search.goal_report import MetricGoal
from qdqtool.errors import GateError

TRIALS = 5
"""Number of proposals that are made into models before the hold-out samples choose among all states."""


@dataclass(frozen=True, slots=True)
class SearchOutcome:
    """The accuracy of the model of a state on the hold-out samples.

    Attributes:
        step: The state.
        worst_db: SQNR of its worst output; None if no output has noise.
        loss: Loss of the task metric; minus infinity without a limit for it.
    """

    step: SearchState
    worst_db: float | None
    loss: float

    @property
    def kept_db(self) -> float:
        """SQNR of its worst output; infinite without noise."""
        return math.inf if self.worst_db is None else self.worst_db


@dataclass(frozen=True, slots=True, kw_only=True)
class StateMeasurement:
    """The measured accuracy of a state.

    Attributes:
        measured_db: SQNR on the hold-out samples: infinite without noise, minus infinity with NaN; None if no model was
            made.
        metric_loss: Loss on the selection samples.
        measured_loss: Loss on the hold-out samples.
    """

    measured_db: float | None = None
    metric_loss: float | None = None
    measured_loss: float | None = None


@dataclass(slots=True)
class Goal(ABC):
    """An accuracy target, and the search for layers that must leave the quantized format for this target.

    Attributes:
        limits: The accuracy.
        factory: Makes the models.
        first: The model with every layer quantized.
        session: The planned model with a switch at each pair.
        search: Searches states in that session.
        found: The outcomes by state.
        best: The last model that kept the target; others are not kept in memory, since models are large.
        curve_from_db: The SQNR from which a whole curve continues beyond the target.
    """

    limits: AccuracyGoal
    factory: CandidateFactory
    first: Candidate
    session: LayerRuns
    search: FloatSearch
    _: KW_ONLY
    found: dict[StateKey, SearchOutcome] = field(default_factory=dict)
    best: Candidate | None = None
    curve_from_db: float = -math.inf

    @abstractmethod
    def propose(self) -> SearchState | None:
        """Return the cheapest state that is expected to keep the target, or None if the search finds none."""

    @abstractmethod
    def ask_more(self, found: SearchOutcome) -> None:
        """Raise the requirement for the next proposal, after the model of a state missed the target."""

    @abstractmethod
    def all_states(self) -> Sequence[SearchState]:
        """Continue the search to its end, and return the states that may keep the target, the cheapest first."""

    @abstractmethod
    def missed(self) -> GateError:
        """Return the error to raise if no model keeps the target."""

    @abstractmethod
    def measurements(self) -> Mapping[StateKey, StateMeasurement]:
        """Return the measurements of states, without their noise in the search."""

    @abstractmethod
    def metric_report(self, found: SearchOutcome) -> MetricGoal | None:
        """Return the loss of the task metric of a model against its limit, or None without such a limit."""

    def measure(self, step: SearchState) -> SearchOutcome:
        """Make the model of a state, and return its accuracy; each model is made once."""
        if step.key not in self.found:
            candidate = self.factory.with_float_layers(step, self.first) if step.share else self.first
            loss = -math.inf if self.limits.max_metric_loss is None else metric_of(candidate).loss
            assert loss is not None
            found = self.found[step.key] = SearchOutcome(step, worst_db(candidate.measured.accuracy), loss)
            if self.keeps(found):
                self.best = candidate
        return self.found[step.key]

    def keeps(self, found: SearchOutcome) -> bool:
        """Return whether a model keeps the goal."""
        return self.limits.is_kept(found.worst_db, found.loss)

    def keeps_state(self, step: SearchState) -> bool:
        """Return whether the model of a state keeps the goal."""
        return self.keeps(self.measure(step))


def find_cheapest(goal: Goal) -> SearchOutcome | None:
    """Return the cheapest state found whose model (``goal.best``) keeps the target, or None if no model does."""
    for _ in range(TRIALS):
        step = goal.propose()
        if step is None:
            break
        found = goal.measure(step)
        if goal.keeps(found):
            return found
        goal.ask_more(found)
    states = goal.all_states()
    if not states or not goal.keeps_state(states[-1]):
        return None
    return goal.measure(first_that(states, goal.keeps_state))


def first_that(states: Sequence[SearchState], keeps: Callable[[SearchState], bool]) -> SearchState:
    """Return the first state that keeps the target, by bisection; the last state must keep it."""
    low, high = -1, len(states) - 1
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if keeps(states[middle]) else (middle, high)
    return states[high]


def metric_of(candidate: Candidate) -> MetricResult:
    """Return the task metric of a model that was measured."""
    accuracy = candidate.measured.accuracy
    assert accuracy is not None
    assert accuracy.metric is not None
    return accuracy.metric


def describe_levels(step: SearchState, search: FloatSearch) -> str:
    """Return in words how many layers left the quantized format in a state of a search."""
    secondary = f" and {len(step.fallback)} in {search.fallback.name}" if search.fallback.name else ""
    return f"{len(step.layers)} of {len(search.layers)} layers in float{secondary}"
