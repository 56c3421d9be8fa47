"""Quantize so that every output keeps a given SQNR: search the layers that stay in float, and prove the result.

The search runs on samples that may choose. What it finds is quantized as any other model, and measured on samples that
chose nothing; where these keep less than the search saw, it goes on with a higher goal, and in the end measures the
states that it came by.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field

from qdqtool.accuracy.layers.layer_runs import LayerRuns, searched_samples
from qdqtool.accuracy.layers.output_noise import WORST_DB
from qdqtool.accuracy.layers.search import CURVE_STEP_DB, FloatSearch
from qdqtool.accuracy.layers.step import Step
from qdqtool.accuracy.search.accuracy_goal import AccuracyGoal, worst_db
from qdqtool.accuracy.search.attempt import Attempt, Attempts
from qdqtool.accuracy.search.goal_report import Settled, curve_of, goal_report, told_levels
from qdqtool.accuracy.search.goal_trials import Reached
from qdqtool.accuracy.search.metric_goal import reach_metric_goal
from qdqtool.accuracy.search.search_curve import ALL_QUANTIZED, Known, Raised, SearchCurve, curve_states
from qdqtool.errors import GateError, UsageError
from qdqtool.models.graph.model import Model

ROUNDS = 5
"""How often the goal of the search is raised, where held-back samples keep less than those of the search."""

MARGIN_DB = 0.3
"""By how much the goal is raised beyond what was lacking."""

BEYOND_DB = 2 * WORST_DB
"""A goal that no model keeps, with which a search tries every layer alone."""


def reach_goal(attempts: Attempts, first: Attempt, ready: Model, goal: AccuracyGoal) -> Reached:
    """Return the cheapest model that was found that keeps the goal.

    Args:
        attempts: Makes the models.
        first: The model with every layer quantized.
        ready: The model that plans are made for.
        goal: The goal.

    Raises:
        UsageError: There are no samples to measure with.
    """
    inputs = attempts.steps.inputs
    if inputs.choosing is None:
        raise UsageError(
            "an accuracy is asked for, and there are no samples to measure it on",
            hint="`--calib-data DATA`, also where weights alone are quantized",
        )
    reached = worst_db(first.measured.accuracy)
    if goal.max_metric_loss is not None:
        return reach_metric_goal(attempts, first, ready, goal)
    goal_db = goal.min_sqnr_db
    assert goal_db is not None
    enough = reached is None or reached >= goal_db
    if enough and not goal.whole_curve:
        return Reached(first)
    finer = attempts.finer(first)
    count = searched_samples(len(inputs.choosing))
    made = LayerRuns.of(ready, first.planned.plan, inputs.prepared, inputs.choosing, count, finer)
    with made as layers, layers.kept_in(goal.sensitivity_file):
        search, tick = layers.search(), attempts.tick
        if tick is not None:
            layers.runs.watch(lambda done: tick(min(done, search.limit), search.limit))
        trials = _Trials(attempts, first, goal_db, [math.inf if reached is None else reached])
        if enough or reached is None:
            search.go_on(goal_db)
            return Reached(first, curve=curve_of(search), search=_told_states(search, search.steps[0], trials, layers))
        found = _searched(trials, search, layers)
        if goal.whole_curve:
            search.go_on(goal_db)
        curve = curve_of(search)
        settled = Settled(found.step, reached, found.worst_db)
        report = goal_report(search, settled, goal.min_sqnr_db, layers, curve)
        return Reached(found.attempt, report, curve, _told_states(search, found.step, trials, layers))


def _told_states(search: FloatSearch, chosen: Step, trials: _Trials, layers: LayerRuns) -> SearchCurve:
    known = {ALL_QUANTIZED: trials.kept[0], **trials.measured}
    return SearchCurve(
        min_sqnr_db=trials.goal_db,
        max_metric_loss=None,
        metric="",
        loss_unit="",
        samples=len(layers.runs.samples),
        states=curve_states(search, chosen, {state: Known(measured_db=found) for state, found in known.items()}),
    )


@dataclass(frozen=True, slots=True)
class _Found:
    attempt: Attempt
    step: Step
    worst_db: float | None


@dataclass(frozen=True, slots=True)
class _Trials:
    """Makes the models of states, and keeps what the worst output of each keeps on the samples that measure."""

    attempts: Attempts
    first: Attempt
    goal_db: float
    kept: list[float]
    measured: dict[Raised, float] = field(default_factory=dict)

    def of(self, step: Step) -> _Found:
        attempt = self.attempts.leaving(step, self.first)
        worst = worst_db(attempt.measured.accuracy)
        self.kept.append(math.inf if worst is None else worst)
        self.measured[step.raised] = self.kept[-1]
        return _Found(attempt, step, worst)

    @property
    def keeps(self) -> bool:
        """Whether the last model keeps the goal."""
        return self.kept[-1] >= self.goal_db


def _searched(trials: _Trials, search: FloatSearch, layers: LayerRuns) -> _Found:
    target = trials.goal_db
    for _ in range(ROUNDS):
        step = search.reach(target)
        if step.shortfall_db > 0 or len(step.units) == len(search.units):
            break
        found = trials.of(step)
        if trials.keeps:
            return found
        lacking = trials.goal_db - trials.kept[-1] if math.isfinite(trials.kept[-1]) else CURVE_STEP_DB
        target = max(target, step.worst_db) + lacking + MARGIN_DB
    return _measured(trials, search, layers)


def _measured(trials: _Trials, search: FloatSearch, layers: LayerRuns) -> _Found:
    """Return the cheapest state that keeps the goal on the hold-out samples."""
    # Ranges of few samples clip values of others, which the samples of the search do not show.
    search.reach(BEYOND_DB)
    states = [step for step in search.frontier() if step.share]
    best = trials.of(states[-1]) if states else None
    if best is None or not trials.keeps:
        raise _missed(layers, search, trials)
    low, high = -1, len(states) - 1
    while high - low > 1:
        middle = (low + high) // 2
        found = trials.of(states[middle])
        if trials.keeps:
            best, high = found, middle
        else:
            low = middle
    return best


def _missed(layers: LayerRuns, search: FloatSearch, trials: _Trials) -> GateError:
    weights, activations = (layers.worst_db(layers.of_kind(constants=each)) for each in (False, True))
    kind, best = "weights" if weights < activations else "activations", search.frontier()[-1]
    lower = max((value for value in trials.kept if math.isfinite(value)), default=None)
    hint = "more calibration data, or another quantize mode"
    return GateError(
        f"no quantized model was found whose outputs all keep {trials.goal_db:.4g} dB: {_told(trials.kept[0])} with "
        f"every layer quantized; the search came to {_told(best.worst_db)} with "
        f"{told_levels(best, search)} on its own samples, and to {_told(max(trials.kept))} on those that "
        f"measure. The {kind} limit it: {_told(weights)} with weights alone quantized, {_told(activations)} with "
        "activations alone",
        hint=hint if lower is None else f"`--min-sqnr {math.floor(lower)}`; or {hint}",
    )


def _told(decibels: float) -> str:
    if decibels <= -WORST_DB:
        return "NaN or infinity"
    return "no noise" if decibels == math.inf else f"{decibels:.1f} dB"
