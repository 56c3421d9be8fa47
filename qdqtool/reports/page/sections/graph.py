"""A picture of the graph: operators colored by their precision, and the Q/DQ pairs between them."""

from qdqtool.jobs.quantize_report import QuantizeReport
from qdqtool.models.graph.report import OutlineNode
from qdqtool.reports.blocks import Block, Drawing, DrawnNode, NodeState, decibels, share
from qdqtool.reports.page.layers import Layer, join_layers
from qdqtool.reports.page.section import Section
from qdqtool.reports.saved.story import Story


def blocks(story: Story) -> tuple[Block, ...]:
    """Return the drawing of the main graph of the quantized model; nothing if no report of ``quantize`` has it."""
    quantize = story.first(QuantizeReport)
    if quantize is None or not quantize.nodes:
        return ()
    layers = {layer.node: layer for layer in join_layers(story) if not layer.graph}
    drawn = tuple(_drawn(node, layers.get(node.name)) for node in quantize.nodes)
    return (Drawing("The main graph, without Q and DQ nodes", drawn, _start(quantize.nodes, layers)),)


def _drawn(node: OutlineNode, layer: Layer | None) -> DrawnNode:
    planned = next((kind for kind in node.formats if kind), "") or (f"{node.weights} weights" if node.weights else "")
    state, label = _state(planned, layer)
    return DrawnNode(
        name=node.name,
        op_type=node.op_type,
        state=state,
        label=label,
        detail=f"{node.name} ({node.op_type}): {', '.join((label, *_measured(layer)))}",
        inputs=tuple(zip(node.inputs, node.formats, strict=True)),
    )


def _state(planned: str, layer: Layer | None) -> tuple[NodeState, str]:
    """Return the state of a node and its precision in words, from the engine if this is known, else as planned."""
    actual = layer.actual if layer is not None else None
    if actual is not None and layer is not None and actual not in {layer.planned, "unknown"}:
        return "fallback", f"{actual}, planned {layer.planned}"
    if planned:
        return "quantized", planned
    if layer is not None and layer.stays_float:
        return "float", "unquantized"
    return "other", "float"


def _measured(layer: Layer | None) -> tuple[str, ...]:
    if layer is None:
        return ()
    noise = (f"{share(layer.noise_share).text} of the noise",) if layer.noise_share is not None else ()
    alone = (f"{decibels(layer.alone_db).text} with it alone",) if layer.alone_db is not None else ()
    return (*noise, *alone)


def _start(nodes: tuple[OutlineNode, ...], layers: dict[str, Layer]) -> int:
    """Return the number of the noisiest layer, where the view of a large graph begins; 0 if no noise is known."""
    noise = {number: layers[node.name].noise_share or 0 for number, node in enumerate(nodes) if node.name in layers}
    return max(noise, key=lambda number: noise[number], default=0)


SECTION = Section(45, "Graph", ("quantize",), blocks)
