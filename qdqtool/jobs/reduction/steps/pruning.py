"""Remove from a changed model what nothing reads any more."""

from collections.abc import Collection, Iterable
from typing import Any

import onnx

from qdqtool.models.graph.scope import walk


def pruned(proto: onnx.ModelProto, kept_unused: Collection[str]) -> onnx.ModelProto:
    """Remove nodes, inputs, initializers and declarations of the main graph that nothing reads.

    Args:
        proto: The model, which is changed.
        kept_unused: Initializers that stay.

    Returns:
        The same model.
    """
    graph = proto.graph
    while True:
        read = _read(proto)
        dead = [node for node in graph.node if not read.intersection(node.output)]
        if not dead:
            break
        for node in dead:
            graph.node.remove(node)
    made = {name for node in graph.node for name in node.output}
    _retain(graph.input, read)
    _retain(graph.initializer, {*read, *kept_unused})
    _retain(graph.value_info, made)
    return proto


def _read(proto: onnx.ModelProto) -> set[str]:
    """The names that nodes and outputs of any scope read."""
    found = {name for _, container in walk(proto) for node in container.node for name in node.input if name}
    for _, container in walk(proto):
        found |= {value if isinstance(value, str) else value.name for value in container.output}
    return found


def _retain(values: Any, names: Iterable[str]) -> None:
    """Remove from a repeated field all values of other names."""
    wanted = set(names)
    left = [value for value in values if value.name in wanted]
    del values[:]
    values.extend(left)
