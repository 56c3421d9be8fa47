"""Quantize so that every output keeps a given SQNR: search the layers that stay in float, and prove the result.

The search runs on samples that may choose. What it finds is quantized as any other model, and measured on samples that
chose nothing; where these keep less than the search saw, it goes on with a higher goal.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from qdqtool.checking.accuracy import Accuracy
from qdqtool.errors import GateError, UsageError
from qdqtool.graph.model import Model
from qdqtool.jobs.goal_report import CurvePoint, GoalReport, curve_of, goal_report
from qdqtool.jobs.quantize_attempt import Attempt, Attempts
from qdqtool.preparation.layer_search import LayerRuns, nodes_of
from qdqtool.sensitivity.search import FloatSearch, Step

ROUNDS = 5
"""How often the goal of the search is raised, where held-back samples keep less than those of the search."""

MARGIN_DB = 0.3
"""By how much the goal is raised beyond what was lacking."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AccuracyGoal:
    """The accuracy for which layers may stay in float.

    Attributes:
        min_sqnr_db: The SQNR that every output keeps, in dB.
        whole_curve: Whether the search goes on beyond it, for the curve of accuracy against quantized share.
    """

    min_sqnr_db: float
    whole_curve: bool = False


@dataclass(frozen=True, slots=True)
class Reached:
    """A model that keeps the goal.

    Attributes:
        attempt: The model.
        report: How it was found; None where every layer is quantized.
        curve: The states that the search came by.
    """

    attempt: Attempt
    report: GoalReport | None = None
    curve: tuple[CurvePoint, ...] = ()


def reach_goal(attempts: Attempts, first: Attempt, ready: Model, goal: AccuracyGoal) -> Reached:
    """Return the cheapest model that was found in which every output keeps the goal.

    Args:
        attempts: Makes the models.
        first: The model with every layer quantized.
        ready: The model that plans are made for.
        goal: The goal.

    Raises:
        GateError: No model keeps it.
        UsageError: There are no samples to measure with.
    """
    inputs = attempts.steps.inputs
    if inputs.choosing is None:
        raise UsageError(
            "an accuracy is asked for, and there are no samples to measure it on",
            hint="`--calib-data DATA`, also where weights alone are quantized",
        )
    reached = _worst(first.measured.accuracy)
    enough = reached is None or reached >= goal.min_sqnr_db
    if enough and not goal.whole_curve:
        return Reached(first)
    with LayerRuns.of(ready, first.planned.plan, inputs.prepared, inputs.choosing) as layers:
        search = layers.search()
        if enough or reached is None:
            search.go_on(goal.min_sqnr_db)
            return Reached(first, curve=curve_of(search))
        found = _searched(attempts, first, search, layers, goal.min_sqnr_db)
        if goal.whole_curve:
            search.go_on(goal.min_sqnr_db)
        curve = curve_of(search)
        report = goal_report(search, found.step, goal.min_sqnr_db, (reached, found.worst_db), layers, curve)
        return Reached(found.attempt, report, curve)


@dataclass(frozen=True, slots=True)
class _Found:
    attempt: Attempt
    step: Step
    worst_db: float | None


def _searched(attempts: Attempts, first: Attempt, search: FloatSearch, layers: LayerRuns, goal_db: float) -> _Found:
    target, worst = goal_db, _worst(first.measured.accuracy)
    for _ in range(ROUNDS):
        step = search.reach(target)
        if step.shortfall_db > 0 or len(step.units) == len(search.units):
            break
        attempt = attempts.leaving(nodes_of(step.units), first)
        worst = _worst(attempt.measured.accuracy)
        if worst is None or worst >= goal_db:
            return _Found(attempt, step, worst)
        target = max(target, step.worst_db) + goal_db - worst + MARGIN_DB
    raise _missed(layers, search, goal_db, (_worst(first.measured.accuracy) or 0.0, worst))


def _worst(accuracy: Accuracy | None) -> float | None:
    """Return the SQNR of the worst output; None where no output has noise.

    Raises:
        UsageError: Nothing was measured.
    """
    if accuracy is None or accuracy.problem:
        problem = "there is no data" if accuracy is None else accuracy.problem
        raise UsageError(f"an accuracy is asked for and cannot be measured: {problem}")
    if any(not output.finite for output in accuracy.outputs):
        return float("-inf")
    return min((output.sqnr_db for output in accuracy.outputs if output.sqnr_db is not None), default=None)


def _missed(layers: LayerRuns, search: FloatSearch, goal_db: float, worst: tuple[float, float | None]) -> GateError:
    quantized = [step for step in search.steps if len(step.units) < len(search.units)]
    best = max(quantized, key=lambda step: step.worst_db)
    weights, activations = (layers.worst_db(layers.of_kind(constants=each)) or math.inf for each in (False, True))
    kind = "weights" if weights < activations else "activations"
    both = f": {weights:.1f} dB with weights alone quantized, {activations:.1f} dB with activations alone"
    kept = best.worst_db if worst[1] is None else min(best.worst_db, worst[1] if best.units else best.worst_db)
    return GateError(
        f"no quantized model was found whose outputs all keep {goal_db:.4g} dB: {worst[0]:.1f} dB with every layer "
        f"quantized; the search came to {best.worst_db:.1f} dB with {len(best.units)} of {len(search.units)} layers "
        f"in float. The {kind} limit it{both if math.isfinite(weights + activations) else ''}",
        hint=f"`--min-sqnr {math.floor(max(kept, worst[0]))}`; or more calibration data, or a mode with other codes: "
        "`--quantize-mode fp8`",
    )
