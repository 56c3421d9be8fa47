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


def goal_report(
    search: FloatSearch,
    step: Step,
    goal_db: float,
    worst: tuple[float, float | None],
    layers: LayerRuns,
    curve: tuple[CurvePoint, ...],
) -> GoalReport:
    """Return the report of a goal that was reached.

    Args:
        search: The search.
        step: What it found.
        goal_db: The goal.
        worst: SQNR of the worst output without and with the layers in float, on the samples that measure.
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
        curve=curve,
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
