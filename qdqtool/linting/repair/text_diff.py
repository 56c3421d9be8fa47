"""Write a model as text for a unified diff, one line for each node; Q and DQ nodes show their constants."""

import difflib
from collections.abc import Iterator

import numpy as np

from qdqtool.models.graph.index.constants import Constants
from qdqtool.models.graph.index.model_index import ModelIndex
from qdqtool.models.graph.index.qdq import QdqNode
from qdqtool.models.graph.index.view import NodeView, Value
from qdqtool.models.graph.model import Model
from qdqtool.models.graph.scope import display
from qdqtool.models.targets import type_name

CONTEXT = 1

SHOWN = 4
"""The number of elements of a scale or zero point that are printed."""


def unified_diff(before: Model, after: Model, name: str) -> str:
    """Return the unified diff of the text of two models, or an empty string if nothing differs.

    Args:
        before: The model before the change.
        after: The model after the change.
        name: The name in the header. Strings from the models are not escaped.
    """
    lines = difflib.unified_diff(
        list(_lines(before)), list(_lines(after)), name, f"{name} (fixed)", lineterm="", n=CONTEXT
    )
    return "\n".join(lines)


def _lines(model: Model) -> Iterator[str]:
    index = ModelIndex.of(model)
    stored = [value for value in index.view.values() if value.initializer is not None]
    for value in stored:
        assert value.initializer is not None
        dims = ", ".join(map(str, value.initializer.dims))
        given = " (an input too)" if value.is_input else ""
        yield f"initializer {value.qualified_name}: {type_name(value.initializer.data_type)}[{dims}]{given}"
    for node in index.view.nodes():
        entry = index.qdq.get(node)
        yield _qdq_line(entry, index.constants) if entry is not None else _node_line(node)


def _node_line(node: NodeView) -> str:
    domain = f"{node.domain}." if node.domain else ""
    return f"{_where(node)}{domain}{node.op_type}({', '.join(node.proto.input)}) -> {', '.join(node.key)}"


def _qdq_line(entry: QdqNode, constants: Constants) -> str:
    quantized = type_name(entry.quantized_type) if entry.quantized_type is not None else "?"
    axis = f" axis={entry.axis}" if entry.axis_given else ""
    block = f" block_size={entry.block_size}" if entry.block_size else ""
    scale, zero = _constant(entry.scale, constants), _constant(entry.zero_point, constants)
    return f"{_node_line(entry.node)} [{quantized} scale={scale} zero_point={zero}{axis}{block}]"


def _constant(value: Value | None, constants: Constants) -> str:
    if value is None:
        return "none"
    array = constants.array(value)
    if array is None:
        return "not constant"
    shown = " ".join(f"{float(each):.6g}" for each in array.reshape(-1)[:SHOWN].astype(np.float64))
    return shown if array.size <= SHOWN else f"{shown} ... ({array.size})"


def _where(node: NodeView) -> str:
    path = f"{display(node.scope.path)}/" if node.scope.path else ""
    return f"{path}{node.proto.name}: " if node.proto.name or path else ""
