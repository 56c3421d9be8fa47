"""The same model with every tensor and node renamed, or its nodes in another order."""

from collections.abc import Callable, Iterator

import onnx


def renamed(proto: onnx.ModelProto, prefix: str = "val_") -> onnx.ModelProto:
    """Every tensor of the graphs gets a new name, counted from 1; node names are cleared. Functions keep theirs."""
    result = onnx.ModelProto()
    result.CopyFrom(proto)
    names: dict[str, str] = {}

    def new(name: str) -> str:
        return names.setdefault(name, f"{prefix}{len(names) + 1}") if name else ""

    _rename(result.graph, new)
    return result


def _rename(graph: onnx.GraphProto, new: Callable[[str], str]) -> None:
    for value in (*graph.input, *graph.output, *graph.initializer, *graph.value_info):
        value.name = new(value.name)
    for node in graph.node:
        node.name = ""
        for names in (node.input, node.output):
            names[:] = [new(name) for name in names]
        for attribute in node.attribute:
            if attribute.type == onnx.AttributeProto.GRAPH:
                _rename(attribute.g, new)


def reordered(proto: onnx.ModelProto) -> onnx.ModelProto:
    """The nodes in the last topological order there is: each as late as it may stand."""
    result = onnx.ModelProto()
    result.CopyFrom(proto)
    waiting = list(result.graph.node)
    order: list[onnx.NodeProto] = []
    while waiting:
        needed = {name for node in waiting for name in _read_by(node)}
        last = next(node for node in waiting if not set(node.output) & needed)
        waiting.remove(last)
        order.insert(0, last)
    copies = [onnx.NodeProto.FromString(node.SerializeToString()) for node in order]
    del result.graph.node[:]
    result.graph.node.extend(copies)
    return result


def _read_by(node: onnx.NodeProto) -> Iterator[str]:
    """What a node reads, with what its bodies read."""
    yield from node.input
    for attribute in node.attribute:
        for inner in attribute.g.node:
            yield from _read_by(inner)
