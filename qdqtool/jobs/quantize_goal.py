"""Quantize so that every output keeps a given SQNR: search the layers that stay in float, and prove the result.

The search runs on samples that may choose. What it finds is quantized as any other model, and measured on samples that
chose nothing; where these keep less than the search saw, it goes on with a higher goal.
"""

from __future__ import annotations

from dataclasses import dataclass

from qdqtool.checking.accuracy import Accuracy
from qdqtool.errors import GateError, UsageError
from qdqtool.graph.model import Model
from qdqtool.jobs.quantize_attempt import Attempt, Attempts
from qdqtool.preparation.layer_search import LayerRuns, nodes_of
from qdqtool.sensitivity.search import FloatSearch, Step

ROUNDS = 5
"""How often the goal of the search is raised, where held-back samples keep less than those of the search."""

MARGIN_DB = 0.3
"""By how much the goal is raised beyond what was lacking."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FloatLayer:
    """A layer that stays in float.

    Attributes:
        node: The node that gives it its name.
        op_type: Its operator.
        nodes: All nodes that stay in float with it.
        share: Its share of the cost of all layers.
    """

    node: str
    op_type: str
    nodes: tuple[str, ...]
    share: float


@dataclass(frozen=True, slots=True, kw_only=True)
class CurvePoint:
    """A state that the search came by.

    Attributes:
        layers_in_float: How many layers are in float.
        quantized_share: The share of the cost that is quantized.
        worst_sqnr_db: SQNR of the worst output on the samples of the search.
        nodes: Labels of the nodes in float.
    """

    layers_in_float: int
    quantized_share: float
    worst_sqnr_db: float
    nodes: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class GoalReport:
    """How a goal was reached.

    Attributes:
        min_sqnr_db: The SQNR that every output keeps.
        layers: How many layers there are.
        left: Those that stay in float.
        float_share: Their share of the cost: the mean of multiply-accumulates, weights and number.
        worst_without_db: SQNR of the worst output with every layer quantized, on the samples that measure.
        worst_db: The same with these layers in float.
        samples: Number of samples that the search ran.
        runs: Runs of one sample that it took.
        curve: The states that it came by.
    """

    min_sqnr_db: float
    layers: int
    left: tuple[FloatLayer, ...]
    float_share: float
    worst_without_db: float | None
    worst_db: float | None
    samples: int
    runs: int
    curve: tuple[CurvePoint, ...]


def reach_goal(attempts: Attempts, first: Attempt, ready: Model, goal_db: float) -> tuple[Attempt, GoalReport | None]:
    """Return the cheapest model that was found in which every output keeps the goal.

    Args:
        attempts: Makes the models.
        first: The model with every layer quantized.
        ready: The model that plans are made for.
        goal_db: The SQNR of the worst output, in dB.

    Returns:
        The model with its report; the first one with None where it keeps the goal already.

    Raises:
        GateError: No model keeps it.
        UsageError: There are no samples to measure with.
    """
    inputs = attempts.steps.inputs
    if inputs.choosing is None:
        raise UsageError("an accuracy is asked for, and there are no samples to measure it with", hint="--calib-data")
    reached = _worst(first.measured.accuracy)
    if reached is None or reached >= goal_db:
        return first, None
    with LayerRuns.of(ready, first.planned.plan, inputs.prepared, inputs.choosing) as layers:
        search, target, attempt = layers.search(), goal_db, first
        for _ in range(ROUNDS):
            step = search.reach(target)
            if step.shortfall_db > 0 or len(step.units) == len(search.units):
                break
            attempt = attempts.leaving(nodes_of(step.units), first)
            found = _worst(attempt.measured.accuracy)
            if found is None or found >= goal_db:
                return attempt, _report(search, step, goal_db, (reached, found), layers)
            target = max(target, step.worst_db) + goal_db - found + MARGIN_DB
        raise _missed(layers, search, goal_db, (reached, _worst(attempt.measured.accuracy)))


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


def _report(
    search: FloatSearch, step: Step, goal_db: float, worst: tuple[float, float | None], layers: LayerRuns
) -> GoalReport:
    shares = dict(zip(search.units, search.shares, strict=True))
    left = tuple(
        FloatLayer(
            node=unit.leader.label,
            op_type=unit.leader.op_type,
            nodes=tuple(node.label for node in unit.nodes),
            share=round(shares[unit], 4),
        )
        for unit in step.units
    )
    return GoalReport(
        min_sqnr_db=goal_db,
        layers=len(search.units),
        left=left,
        float_share=round(step.share, 4),
        worst_without_db=worst[0],
        worst_db=worst[1],
        samples=len(layers.runs.samples),
        runs=layers.runs.runs,
        curve=curve_of(search),
    )


def curve_of(search: FloatSearch) -> tuple[CurvePoint, ...]:
    """Return the states that a search came by."""
    return tuple(
        CurvePoint(
            layers_in_float=len(step.units),
            quantized_share=round(1 - step.share, 4),
            worst_sqnr_db=round(step.worst_db, 2),
            nodes=tuple(node.label for node in nodes_of(step.units)),
        )
        for step in search.steps
    )


def _missed(layers: LayerRuns, search: FloatSearch, goal_db: float, worst: tuple[float, float | None]) -> GateError:
    best = max(search.steps, key=lambda step: step.worst_db)
    weights, activations = (layers.worst_db(layers.of_kind(constants=each)) for each in (False, True))
    kind = "weights" if weights < activations else "activations"
    found = f"{worst[1]:.1f} dB" if worst[1] is not None else "nothing"
    tried = f"{found} with {len(best.units)} of {len(search.units)} layers in float"
    return GateError(
        f"no model with quantized layers was found whose outputs all keep {goal_db:g} dB: {worst[0]:.1f} dB with every "
        f"layer quantized, and {tried}. {kind.capitalize()} limit it: {weights:.1f} dB with weights alone quantized, "
        f"{activations:.1f} dB with activations alone",
        hint=f"`--min-sqnr {min(best.worst_db, worst[1] or best.worst_db) - 1:.0f}`, or a mode with more precision: "
        "`--quantize-mode fp8` where the outputs are of few large values, int8 else",
    )
