"""Join the facts that several reports have about the same node into one row for each layer."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from qdqtool.accuracy.checking.report import CheckReport
from qdqtool.accuracy.search.goal_report import GoalReport
from qdqtool.engines.build.report import EngineReport
from qdqtool.engines.report import NodePrecision
from qdqtool.jobs.quantize_report import QuantizeReport
from qdqtool.jobs.sensitivity_report import NodeEffect, SensitivityReport
from qdqtool.models.graph.report import OutlineNode
from qdqtool.quantization.report import QuantizedTensor
from qdqtool.reports.saved.story import Story

_Place = tuple[str, str]
"""Scope and label of a node, or scope and name of a tensor."""


@dataclass(slots=True, kw_only=True)
class Layer:
    """The facts that the reports have about one node.

    Attributes:
        node: Its label.
        graph: Its scope; empty for the main graph.
        op_type: Its operator; None if no report names it.
        leader: The name of the layer to which the node belongs, if it differs from the label; else empty.
        noise_share: Its share of the noise, 0 to 1; None if it is unknown.
        alone_db: SQNR of the worst output with only this layer quantized.
        gain_db: Gain of the outputs, in dB, if only this layer stays in float.
        cost_share: Its share of the cost, 0 to 1.
        input_db: Lowest SQNR of the quantized tensors that it reads.
        clipped: Largest share of clipped elements in these tensors, 0 to 1.
        planned: The precision that its Q/DQ pairs ask for.
        actual: The precision in the engine.
        stays_float: Whether it is unquantized.
    """

    node: str
    graph: str
    op_type: str | None = None
    leader: str = ""
    noise_share: float | None = None
    alone_db: float | None = None
    gain_db: float | None = None
    cost_share: float | None = None
    input_db: float | None = None
    clipped: float | None = None
    planned: str | None = None
    actual: str | None = None
    stays_float: bool = False

    @property
    def is_measured(self) -> bool:
        """Whether a report has measured it."""
        return self.alone_db is not None or self.noise_share is not None or self.input_db is not None


class _Layers(dict[_Place, Layer]):
    """The layers by scope and label; reading an unknown layer adds it."""

    def __missing__(self, place: _Place) -> Layer:
        self[place] = Layer(graph=place[0], node=place[1])
        return self[place]


def join_layers(story: Story) -> tuple[Layer, ...]:
    """Return a layer for each node that a report measures, plans or leaves in float, the noisiest first."""
    layers = _Layers()
    quantize, sensitivity = story.first(QuantizeReport), story.first(SensitivityReport)
    build = story.first(EngineReport)
    _add_effects(layers, sensitivity.nodes if sensitivity is not None else ())
    _add_inputs(layers, quantize.quantized if quantize is not None else (), story)
    _add_precision(layers, build.nodes if build is not None else ())
    _add_costs(layers, quantize.goal if quantize is not None else None)
    for skip in quantize.skipped if quantize is not None else ():
        layer = layers[skip.graph, skip.node]
        layer.op_type, layer.stays_float = skip.op_type, True
    _add_operators(layers, quantize.nodes if quantize is not None else ())
    return tuple(sorted(layers.values(), key=lambda layer: -(layer.noise_share or 0)))


def _add_effects(layers: _Layers, effects: Iterable[NodeEffect]) -> None:
    for effect in effects:
        layer = layers[effect.graph, effect.node]
        layer.op_type, layer.noise_share, layer.alone_db = effect.op_type, effect.noise_share, effect.worst_sqnr_db
        layer.gain_db, layer.cost_share = effect.gain_db, effect.cost_share
        for member in effect.nodes:
            if member != effect.node:
                layers[effect.graph, member].leader = effect.node


def _add_costs(layers: _Layers, goal: GoalReport | None) -> None:
    """Add the costs of layers that an accuracy target leaves in float or in the secondary format."""
    # Those that `sensitivity` measured count in other groups.
    for left in (*goal.left, *goal.finer) if goal is not None else ():
        layer = layers["", left.node]
        if layer.cost_share is None and not layer.leader:
            layer.op_type, layer.cost_share = left.op_type, left.share
            for member in left.nodes:
                if member != left.node:
                    layers["", member].leader = left.node


def _add_inputs(layers: _Layers, pairs: Iterable[QuantizedTensor], story: Story) -> None:
    """Add the formats of activations (of weights in weight-only modes), and the worst errors of the tensors."""
    readers: dict[_Place, list[Layer]] = {}
    for pair in pairs:
        readers[pair.graph, pair.tensor] = [layers[pair.graph, node] for node in pair.consumers]
        for layer in readers[pair.graph, pair.tensor]:
            if pair.kind != "weight":
                layer.planned = pair.format
            elif not layer.planned:
                layer.planned = f"{pair.format} weights"
    for found in (found for _, check in story.each(CheckReport) for found in check.boundaries):
        clipped = found.clipped / found.elements if found.elements else None
        for layer in readers.get((found.graph, found.tensor), ()):
            layer.input_db = min((each for each in (layer.input_db, found.sqnr_db) if each is not None), default=None)
            layer.clipped = max((each for each in (layer.clipped, clipped) if each is not None), default=None)


def _add_precision(layers: _Layers, nodes: Sequence[NodePrecision]) -> None:
    """Add the precision of each node with a unique name: a shared name does not identify the node."""
    count = Counter((node.graph, node.name) for node in nodes)
    for node in nodes:
        if count[node.graph, node.name] == 1:
            layer = layers[node.graph, node.name]
            layer.planned, layer.actual, layer.op_type = node.planned, node.actual, node.op_type


def _add_operators(layers: _Layers, nodes: Sequence[OutlineNode]) -> None:
    """Set the operator of a layer that has none to that of the node with its name, if only one node has the name."""
    count = Counter(node.name for node in nodes)
    for node in nodes:
        layer = layers.get(("", node.name))
        if layer is not None and layer.op_type is None and count[node.name] == 1:
            layer.op_type = node.op_type
