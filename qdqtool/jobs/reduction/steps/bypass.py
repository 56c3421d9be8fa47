"""Leave nodes out whose output has the type and shape of an input: their readers read that input."""

from collections.abc import Collection

import onnx

from qdqtool.jobs.reduction.minimal_subset import minimal_subset
from qdqtool.jobs.reduction.search import Search
from qdqtool.jobs.reduction.steps.pruning import pruned
from qdqtool.jobs.reduction.subgraph import Subgraphs, with_proto
from qdqtool.models.graph.index.view import NodeView, Value
from qdqtool.models.graph.model import Model
from qdqtool.models.graph.scope import walk


def bypass_nodes(search: Search) -> None:
    """Bypass nodes of the main graph. It keeps what lies between two nodes connected, which cutting does not."""
    graph = Subgraphs(search.best, search.kept_unused)
    keys = [graph.nodes[index].key for index in _ways(graph)] if len(graph.layers) > 1 else []
    if keys:
        others = {node.key for node in graph.nodes} - {*keys}
        minimal_subset(keys, lambda kept: search.accepts(bypassed(graph, others.union(kept))))


def bypassed(graph: Subgraphs, kept: Collection[tuple[str, ...]]) -> Model | None:
    """Return a model without the nodes that can be bypassed; None where there is none, or where no output is left.

    Args:
        graph: The model.
        kept: Keys of nodes that stay.
    """
    ways = {index: way for index, way in _ways(graph).items() if graph.nodes[index].key not in kept}
    return _without(graph, ways) if ways else None


def _ways(graph: Subgraphs) -> dict[int, str]:
    """For each node that can be bypassed the name of the input that stands for its output."""
    return {index: way for index in graph.layers if (way := _way_around(graph, graph.nodes[index])) is not None}


def _way_around(graph: Subgraphs, node: NodeView) -> str | None:
    """The name of the input that can stand for the only output of a node that is read."""
    outputs = [value for position in range(len(node.proto.output)) if (value := node.output(position)) is not None]
    used = [value for value in outputs if value.uses or value.is_output]
    if len(used) != 1:
        return None
    for position in range(len(node.proto.input)):
        value = node.input(position)
        if value is not None and value.initializer is None and _are_alike(graph, value, used[0]):
            return value.name
    return None


def _are_alike(graph: Subgraphs, one: Value, other: Value) -> bool:
    types = graph.index.types
    shape = types.shape(one)
    return shape is not None and shape == types.shape(other) and types.elem_type(one) == types.elem_type(other)


def _without(graph: Subgraphs, ways: dict[int, str]) -> Model | None:
    stand_ins: dict[str, str] = {}
    for index in sorted(ways):
        source = stand_ins.get(ways[index], ways[index])
        stand_ins.update((name, source) for name in graph.nodes[index].proto.output if name)
    proto = onnx.ModelProto()
    proto.CopyFrom(graph.model.proto)
    nodes = [node for index, node in enumerate(proto.graph.node) if index not in ways]
    del proto.graph.node[:]
    proto.graph.node.extend(nodes)
    for _, container in walk(proto):
        for node in container.node:
            for position, name in enumerate(node.input):
                node.input[position] = stand_ins.get(name, name)
    made = {name for node in proto.graph.node for name in node.output}
    for output in [each for each in proto.graph.output if each.name in stand_ins]:
        proto.graph.output.remove(output)
        # An output that is an input as it is says nothing.
        source = stand_ins[output.name]
        if source in made and all(each.name != source for each in proto.graph.output):
            proto.graph.output.add(name=source, type=output.type)
    return with_proto(graph.model, pruned(proto, graph.kept_unused)) if proto.graph.output else None
