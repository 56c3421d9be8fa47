"""Join what several reports say of the same node into one row for each layer."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace

from qdqtool.accuracy.checking.report import BoundaryResult, CheckReport
from qdqtool.engines.build.report import EngineReport
from qdqtool.engines.report import NodePrecision
from qdqtool.jobs.quantize_report import QuantizeReport
from qdqtool.jobs.sensitivity_report import SensitivityReport
from qdqtool.quantization.report import QuantizedTensor
from qdqtool.reports.saved.story import Story

_Place = tuple[str, str]
"""Scope and label of a node, or scope and name of a tensor."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Layer:
    """What is known of one node.

    Attributes:
        node: Its label.
        graph: Its scope; empty for the main graph.
        op_type: Its operator; None where no report names it.
        leader: The layer it belongs to, where that has another name; empty else.
        noise_share: Share of the noise that it makes, of 1; None where it is not known.
        alone_db: SQNR of the worst output with only this layer quantized.
        gain_db: Gain of the outputs when only this layer stays in float.
        cost_share: Its share of cost, of 1.
        input_db: SQNR of the worst of the quantized tensors that it reads.
        clipped: The largest share of clipped elements in one of these tensors, of 1.
        planned: The precision that its Q/DQ ask for.
        actual: The precision in the engine.
        stays_float: Whether it was left in float.
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


def join_layers(story: Story) -> tuple[Layer, ...]:
    """Return a layer for each node that a report measures, plans or leaves in float, the noisiest first."""
    layers: dict[_Place, Layer] = {}
    _add_effects(layers, story)
    _add_inputs(layers, story)
    _add_precision(layers, story)
    _add_float(layers, story)
    _add_operators(layers, story)
    return tuple(sorted(layers.values(), key=lambda layer: -(layer.noise_share or 0)))


def _at(layers: Mapping[_Place, Layer], place: _Place) -> Layer:
    return layers.get(place) or Layer(graph=place[0], node=place[1])


def _add_effects(layers: dict[_Place, Layer], story: Story) -> None:
    sensitivity = story.first(SensitivityReport)
    for effect in sensitivity.nodes if sensitivity is not None else ():
        place = (effect.graph, effect.node)
        layers[place] = replace(
            _at(layers, place),
            op_type=effect.op_type,
            noise_share=effect.noise_share,
            alone_db=effect.worst_sqnr_db,
            gain_db=effect.gain_db,
            cost_share=effect.cost_share,
        )
        for member in effect.nodes:
            if member != effect.node:
                layers[effect.graph, member] = replace(_at(layers, (effect.graph, member)), leader=effect.node)


def _add_inputs(layers: dict[_Place, Layer], story: Story) -> None:
    quantize = story.first(QuantizeReport)
    readers = {(pair.graph, pair.tensor): pair.consumers for pair in quantize.quantized} if quantize is not None else {}
    for pair in quantize.quantized if quantize is not None else ():
        for node in pair.consumers:
            layers[pair.graph, node] = _planned(_at(layers, (pair.graph, node)), pair)
    for boundary in (found for _, check in story.each(CheckReport) for found in check.boundaries):
        for node in readers.get((boundary.graph, boundary.tensor), ()):
            layers[boundary.graph, node] = _worse(_at(layers, (boundary.graph, node)), boundary)


def _planned(layer: Layer, pair: QuantizedTensor) -> Layer:
    """Return a layer with the format of its activations, or of its weights where these alone are quantized."""
    if pair.kind == "weight":
        return layer if layer.planned else replace(layer, planned=f"{pair.format} weights")
    return replace(layer, planned=pair.format)


def _worse(layer: Layer, boundary: BoundaryResult) -> Layer:
    clipped = boundary.clipped / boundary.elements if boundary.elements else None
    return replace(
        layer,
        input_db=min((value for value in (layer.input_db, boundary.sqnr_db) if value is not None), default=None),
        clipped=max((value for value in (layer.clipped, clipped) if value is not None), default=None),
    )


def _add_precision(layers: dict[_Place, Layer], story: Story) -> None:
    build = story.first(EngineReport)
    for place, node in _unique(build.nodes if build is not None else ()).items():
        found = replace(_at(layers, place), planned=node.planned, actual=node.actual, op_type=node.op_type)
        layers[place] = found


def _unique(nodes: Iterable[NodePrecision]) -> Mapping[_Place, NodePrecision]:
    """Return the nodes whose name no other node has: what is said of the others may be of either."""
    found: dict[_Place, list[NodePrecision]] = {}
    for node in nodes:
        found.setdefault((node.graph, node.name), []).append(node)
    return {place: same[0] for place, same in found.items() if len(same) == 1}


def _add_float(layers: dict[_Place, Layer], story: Story) -> None:
    quantize = story.first(QuantizeReport)
    for skip in quantize.skipped if quantize is not None else ():
        place = (skip.graph, skip.node)
        layers[place] = replace(_at(layers, place), op_type=skip.op_type, stays_float=True)


def _add_operators(layers: dict[_Place, Layer], story: Story) -> None:
    """Name the operators of the main graph where a layer has none yet, unless two nodes have its name."""
    quantize = story.first(QuantizeReport)
    nodes = quantize.nodes if quantize is not None else ()
    names = Counter(node.name for node in nodes)
    for node in nodes:
        layer = layers.get(("", node.name))
        if layer is not None and layer.op_type is None and names[node.name] == 1:
            layers["", node.name] = replace(layer, op_type=node.op_type)
