"""How an accuracy that was asked for was reached, as data: the JSON report is these classes, key by key."""

from __future__ import annotations

import math
from dataclasses import dataclass

from qdqtool.preparation.layer_search import LayerRuns, nodes_of
from qdqtool.sensitivity.search import FloatSearch, Step


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
        worst_sqnr_db: SQNR of the worst output on the samples of the search; None where no output has noise.
        nodes: Labels of the nodes in float.
    """

    layers_in_float: int
    quantized_share: float
    worst_sqnr_db: float | None
    nodes: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class MetricGoal:
    """How a task metric keeps to its limit.

    Attributes:
        name: The metric, or the name of a function of the user.
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
    left = tuple(
        FloatLayer(
            node=unit.leader.label,
            op_type=unit.leader.op_type,
            nodes=tuple(node.label for node in unit.nodes),
            share=round(shares[unit], 4),
        )
        for unit in settled.step.units
    )
    return GoalReport(
        min_sqnr_db=min_sqnr_db,
        layers=len(search.units),
        left=left,
        float_share=round(settled.step.share, 4),
        worst_without_db=settled.worst_without_db,
        worst_db=settled.worst_db,
        samples=len(layers.runs.samples),
        runs=layers.runs.runs,
        curve=curve,
        metric=settled.metric,
    )


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
        )
        for step in search.frontier()
    )
