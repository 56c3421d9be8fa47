"""How an accuracy that was asked for was reached, as data: the JSON report is these classes, key by key."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from qdqtool.accuracy.layers.layer_runs import LayerRuns, nodes_of
from qdqtool.accuracy.layers.search import FloatSearch
from qdqtool.accuracy.layers.step import Step
from qdqtool.accuracy.layers.units import Unit


@dataclass(frozen=True, slots=True, kw_only=True)
class FloatLayer:
    """A layer that stays in float, or has the fallback format.

    Attributes:
        node: The node that gives it its name.
        op_type: Its operator.
        nodes: All nodes that stay in float with it, or have the fallback format.
        share: What it costs there, as a share of the cost of all layers in float.
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
        worst_sqnr_db: SQNR of the worst output on the samples of the search; None where no output has noise.
        nodes: Labels of the nodes in float.
        layers_in_fallback: How many layers have the fallback format.
        fallback_nodes: Labels of their nodes.
    """

    layers_in_float: int
    quantized_share: float
    worst_sqnr_db: float | None
    nodes: tuple[str, ...]
    layers_in_fallback: int = 0
    fallback_nodes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class MetricGoal:
    """How a task metric keeps to its limit.

    Attributes:
        name: The metric, or the name of a function of the user.
        output: The output that it reads; None for a function of the user, which gets all of them.
        loss_unit: Unit of the losses; may be empty.
        max_loss: The limit.
        loss_without: Loss with every layer quantized, on the samples that measure.
        loss: The same with these layers in float.
        predictions: Number of predictions on these samples; of samples where a function of the user measures.
        choosing_loss: Loss of the state on the samples that chose it.
        choosing_predictions: Number of predictions on those.
        models: How many models were measured, that with every layer quantized included: each but the last lost more.
    """

    name: str
    output: str | None
    loss_unit: str
    max_loss: float
    loss_without: float
    loss: float
    predictions: int
    choosing_loss: float
    choosing_predictions: int
    models: int


@dataclass(frozen=True, slots=True, kw_only=True)
class GoalReport:
    """How a goal was reached.

    Attributes:
        min_sqnr_db: The SQNR that every output keeps; None without such a limit.
        layers: How many layers there are.
        left: Those that stay in float.
        float_share: Their share of the cost: the mean of multiply-accumulates, weights and number.
        worst_without_db: SQNR of the worst output with every layer quantized, on the samples that measure.
        worst_db: The same with these layers in float.
        samples: Number of samples that the search ran.
        runs: Runs of one sample that it took.
        curve: The states that it came by.
        metric: The task metric; None without a limit of it.
        fallback: The fallback format; None where none was asked for.
        finer: The layers that have it.
        finer_share: Their share of the cost: what they cost in that format.
    """

    min_sqnr_db: float | None
    layers: int
    left: tuple[FloatLayer, ...]
    float_share: float
    worst_without_db: float | None
    worst_db: float | None
    samples: int
    runs: int
    curve: tuple[CurvePoint, ...]
    metric: MetricGoal | None = None
    fallback: str | None = None
    finer: tuple[FloatLayer, ...] = ()
    finer_share: float = 0.0


@dataclass(frozen=True, slots=True)
class Settled:
    """What a search ended with.

    Attributes:
        step: The state.
        worst_without_db: SQNR of the worst output with every layer quantized, on the samples that measure.
        worst_db: The same in this state.
        metric: The task metric; None without a limit of it.
    """

    step: Step
    worst_without_db: float | None
    worst_db: float | None
    metric: MetricGoal | None = None


def goal_report(
    search: FloatSearch, settled: Settled, min_sqnr_db: float | None, layers: LayerRuns, curve: tuple[CurvePoint, ...]
) -> GoalReport:
    """Return the report of a goal that was reached.

    Args:
        search: The search.
        settled: What it ended with.
        min_sqnr_db: The SQNR that every output keeps; None for no such limit.
        layers: The session.
        curve: The states that the search came by.
    """
    shares = dict(zip(search.units, search.shares, strict=True))
    finer = search.fallback.shares if search.fallback is not None else {}
    step = settled.step
    return GoalReport(
        min_sqnr_db=min_sqnr_db,
        layers=len(search.units),
        left=_layers(step.units, shares),
        float_share=round(math.fsum(shares[unit] for unit in step.units), 4),
        worst_without_db=settled.worst_without_db,
        worst_db=settled.worst_db,
        samples=len(layers.runs.samples),
        runs=layers.runs.runs,
        curve=curve,
        metric=settled.metric,
        fallback=search.fallback.name if search.fallback is not None else None,
        finer=_layers(step.fallback, finer),
        finer_share=round(math.fsum(finer[unit] for unit in step.fallback), 4),
    )


def _layers(units: Sequence[Unit], shares: Mapping[Unit, float]) -> tuple[FloatLayer, ...]:
    return tuple(
        FloatLayer(
            node=unit.leader.label,
            op_type=unit.leader.op_type,
            nodes=tuple(node.label for node in unit.nodes),
            share=round(shares[unit], 4),
        )
        for unit in units
    )


def told_levels(step: Step, search: FloatSearch) -> str:
    """Return in words how many layers left the quantized format in a state of a search."""
    finer = f" and {len(step.fallback)} in {search.fallback.name}" if search.fallback is not None else ""
    return f"{len(step.units)} of {len(search.units)} layers in float{finer}"


def curve_of(search: FloatSearch) -> tuple[CurvePoint, ...]:
    """Return the states that a search came by, without those that another one equals or beats in both respects.

    The float model itself is none of them.
    """
    return tuple(
        CurvePoint(
            layers_in_float=len(step.units),
            quantized_share=round(1 - step.share, 4),
            worst_sqnr_db=None if step.worst_db == math.inf else round(step.worst_db, 2),
            nodes=tuple(node.label for node in nodes_of(step.units)),
            layers_in_fallback=len(step.fallback),
            fallback_nodes=tuple(node.label for node in nodes_of(step.fallback)),
        )
        for step in search.frontier()
    )
