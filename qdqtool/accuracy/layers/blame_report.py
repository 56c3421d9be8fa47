"""The layers that make most of the noise at the worst output, as data: reports have these classes, key by key."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from qdqtool.accuracy.layers.blame import HALF_DB, Blame, LoudUnit
from qdqtool.accuracy.layers.costs import costs_of
from qdqtool.accuracy.layers.units import Unit, excluding_patterns
from qdqtool.models.graph.index.model_index import ModelIndex
from qdqtool.models.graph.scope import display


@dataclass(frozen=True, slots=True, kw_only=True)
class BlamedLayer:
    """One layer that makes much of the noise.

    Attributes:
        node: The node that gives the layer its name.
        op_type: Its operator.
        graph: Its scope; empty for the main graph.
        nodes: All nodes that are quantized or stay in float together, since one kernel computes them.
        noise_share: Its share of the noise that all layers make alone at the worst output, 0 to 1.
        alone_db: SQNR of that output with only this layer quantized.
        without_db: The same with only this layer in float; None where it was not measured, or where the output then
            has no noise.
        dominant: Whether it makes more noise than all other layers together: in float, more than half of it is gone.
        macs_share: Its share of the multiply-accumulates of all layers.
        weights_share: Its share of their weights.
        exclude: Patterns for ``--nodes-to-exclude`` that match its nodes.
    """

    node: str
    op_type: str
    graph: str
    nodes: tuple[str, ...]
    noise_share: float
    alone_db: float | None
    without_db: float | None
    dominant: bool
    macs_share: float
    weights_share: float
    exclude: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class BlameReport:
    """What makes the noise at the worst output.

    Attributes:
        output: The output; empty where nothing was measured.
        whole_db: Its SQNR with all layers quantized, on the samples of this measurement; None where it has no noise.
        samples: Number of these samples.
        runs: How often one sample was run.
        layers: The layers that were found, the one with the largest share first.
        rest_share: The largest share that another layer can have.
        left_out: What could not be switched, and why, in words.
        float_db: SQNR of the output with all pairs off against the baseline, where that is another model; None where it
            was not compared, or where the two are equal.
        problem: Why nothing could be measured; empty where it was.
    """

    output: str = ""
    whole_db: float | None = None
    samples: int = 0
    runs: int = 0
    layers: tuple[BlamedLayer, ...] = ()
    rest_share: float = 0.0
    left_out: tuple[str, ...] = ()
    float_db: float | None = None
    problem: str = ""


def blamed_layers(blame: Blame, units: Sequence[Unit], index: ModelIndex) -> tuple[BlamedLayer, ...]:
    """Return the entries of the layers that were found.

    Args:
        blame: What was found.
        units: All layers.
        index: Of the model with their nodes.
    """
    costs, patterns = dict(zip(units, costs_of(units, index), strict=True)), excluding_patterns(units, index)
    macs = sum(cost.macs for cost in costs.values()) or 1
    weights = sum(cost.weights for cost in costs.values()) or 1
    return tuple(
        replace(
            _layer(loud, patterns),
            dominant=loud.without_db is not None and loud.without_db - blame.whole_db > HALF_DB,
            macs_share=round(costs[loud.unit].macs / macs, 6),
            weights_share=round(costs[loud.unit].weights / weights, 6),
        )
        for loud in blame.loud
    )


def _layer(loud: LoudUnit, patterns: Mapping[Unit, tuple[str, ...]]) -> BlamedLayer:
    leader = loud.unit.leader
    return BlamedLayer(
        node=leader.label,
        op_type=leader.op_type,
        graph=display(leader.scope.path),
        nodes=tuple(node.label for node in loud.unit.nodes),
        noise_share=round(loud.share, 4),
        alone_db=finite_db(loud.alone_db),
        without_db=None if loud.without_db is None else finite_db(loud.without_db),
        dominant=False,
        macs_share=0.0,
        weights_share=0.0,
        exclude=patterns[loud.unit],
    )


def finite_db(decibels: float) -> float | None:
    """Return a figure in dB as reports have it; None where there is no noise."""
    return None if decibels == math.inf else round(decibels, 4)
