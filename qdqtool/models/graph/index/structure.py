"""Describe a node by the operators around it, and a main graph by its operators and their connections."""

import glob
import hashlib
from collections import Counter
from collections.abc import Iterable, Mapping

import onnx
from onnx import TensorProto

from qdqtool.models.graph.index.qdq import DEQUANTIZE, QUANTIZE
from qdqtool.models.graph.index.view import GraphView, NodeView, Value
from qdqtool.models.graph.model import Model
from qdqtool.models.graph.report import OutlineNode
from qdqtool.models.graph.scope import node_bodies
from qdqtool.numerics import formats

OUTSIDE = -1
"""The producer number of an input of the model."""

_PAIR = frozenset({QUANTIZE, DEQUANTIZE})
_UNKNOWN = "quantized"
_LONGEST = 16
"""The longest sequence of Q and DQ nodes that is skipped."""


def outline(model: Model) -> tuple[OutlineNode, ...]:
    """Return the operators of the main graph in order, without Q, DQ and Constant nodes."""
    view = GraphView(model)
    nodes = [node for node in view.main.nodes if node.op_type not in _PAIR and not node.is_op("Constant")]
    numbers = {id(node): number for number, node in enumerate(nodes)}
    return tuple(_outlined(node, numbers) for node in nodes)


def _outlined(node: NodeView, numbers: Mapping[int, int]) -> OutlineNode:
    read = list(map(_source, node.present_inputs))
    flowing = [(value, kind) for value, kind in read if not value.is_stored]
    weights = [kind for value, kind in read if kind and value.is_stored]
    return OutlineNode(
        name=node.label,
        op_type=node.op_type,
        inputs=tuple(numbers.get(id(value.producer), OUTSIDE) for value, _ in flowing),
        formats=tuple(kind for _, kind in flowing),
        weights=weights[0] if weights else "",
    )


def _source(value: Value) -> tuple[Value, str]:
    """Return the tensor before the Q and DQ nodes that make a value, and the format of the last of these nodes."""
    kind = ""
    for _ in range(_LONGEST):
        maker = value.producer
        data = maker.input(0) if maker is not None and maker.op_type in _PAIR else None
        if maker is None or data is None:
            break
        if maker.op_type == DEQUANTIZE:
            kind = kind or _format(data)
        value = data
    return value, kind


def _format(codes: Value) -> str:
    """Return the format of the codes that a DQ reads."""
    onnx_type = _type(codes)
    maker = codes.producer
    if maker is not None and maker.op_type == QUANTIZE:
        zero_point = maker.input(2)
        stored = _type(zero_point) if zero_point is not None else None
        onnx_type = stored or maker.attribute("output_dtype") or TensorProto.UINT8
    found = formats.by_onnx_type(onnx_type) if onnx_type is not None else None
    return found.name if found is not None else _UNKNOWN


def _type(constant: Value) -> int | None:
    """Return the type of a constant, or None if the value is not constant."""
    if constant.initializer is not None:
        return constant.initializer.data_type
    stored = constant.producer.attribute("value") if constant.producer is not None else None
    return stored.data_type if isinstance(stored, TensorProto) else None


class NodePatterns:
    """The patterns with which options such as ``--nodes-to-exclude`` select nodes."""

    def __init__(self, view: GraphView) -> None:
        self._names = Counter(name for node in view.nodes() for name in {node.proto.name, *node.proto.output})

    def pattern(self, node: NodeView) -> str:
        """Return a pattern that matches only this node, or its first name if none of its names is unique."""
        words = [name for name in (node.proto.name, *node.proto.output) if name]
        return glob.escape(next((word for word in words if self._names[word] == 1), words[0]))


REACH = 3
"""Number of steps from a node, in both directions, that its neighborhood covers."""

SHOWN = 3
"""Largest number of producers, and of consumers, that a line of context lists."""

_CONTENT = frozenset({onnx.AttributeProto.TENSOR, onnx.AttributeProto.TENSORS, onnx.AttributeProto.SPARSE_TENSOR})


def digest(*parts: object) -> str:
    """Return a short hash of ``parts`` in order."""
    text = "\0".join(f"{len(word)} {word}" for word in map(str, parts))
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:16]


def operation(node: NodeView) -> str:
    """Hash what a node does: operator, attributes, and operators of its subgraphs; no names and no stored values."""
    attributes = sorted(map(_attribute, node.proto.attribute))
    bodies = [inner.op_type for _, graph in node_bodies(node.proto) for inner in graph.node]
    return digest(node.domain, node.op_type, *attributes, *bodies)


class Neighbourhoods:
    """Hashes of nodes, made from the operators, attributes and constant shapes within :data:`REACH` steps.

    The hashes do not change when tensors and nodes are renamed or reordered, or when distant nodes are edited. Nodes of
    repeated blocks may have the same hash.
    """

    def __init__(self) -> None:
        self._operations: dict[NodeView, str] = {}
        self._up: dict[tuple[NodeView, int], str] = {}
        self._down: dict[tuple[NodeView, int], str] = {}

    def around(self, node: NodeView) -> str:
        """Return the hash of a node's neighborhood."""
        return digest(self._above(node, REACH), self._below(node, REACH))

    def _operation(self, node: NodeView) -> str:
        if node not in self._operations:
            self._operations[node] = operation(node)
        return self._operations[node]

    def _above(self, node: NodeView, steps: int) -> str:
        if (node, steps) not in self._up:
            inputs = [self._source(value, steps) for value in node.inputs]
            self._up[node, steps] = digest(self._operation(node), *inputs)
        return self._up[node, steps]

    def _source(self, value: Value | None, steps: int) -> str:
        if value is None:
            return "absent"
        if value.initializer is not None:
            return f"constant {value.initializer.data_type} {list(value.initializer.dims)}"
        if value.producer is None:
            return "input"
        return self._above(value.producer, steps - 1) if steps else "more"

    def _below(self, node: NodeView, steps: int) -> str:
        if (node, steps) not in self._down:
            outputs = [self._readers(value, steps) for value in node.outputs]
            self._down[node, steps] = digest(self._operation(node), *outputs)
        return self._down[node, steps]

    def _readers(self, value: Value | None, steps: int) -> str:
        if value is None:
            return "absent"
        if not steps:
            return "more"
        readers = sorted(f"{use.index} {self._below(use.node, steps - 1)}" for use in value.uses)
        return digest("output" if value.is_output else "", *readers)


def context(node: NodeView) -> str:
    """Format a node between its producers and consumers: ``Relu r -> QuantizeLinear q -> DequantizeLinear d``.

    Constants are left out. If there are many neighbors, the first are listed and the others counted. Names are not
    escaped.
    """
    sources = list(map(_origin, node.inputs))
    outputs = node.present_outputs
    readers = [_called(use.node) for value in outputs for use in value.uses]
    readers += [f"output {value.name}" for value in outputs if value.is_output]
    sides = (_joined(filter(None, sources)), _called(node), _joined(readers))
    return " -> ".join(filter(None, sides))


def _origin(value: Value | None) -> str:
    if value is None or value.initializer is not None:
        return ""
    if value.producer is None:
        return f"input {value.name}"
    return "" if value.producer.is_op("Constant") else _called(value.producer)


def _called(node: NodeView) -> str:
    return f"{node.op_type} {node.proto.name or next(filter(None, node.proto.output), '')}".rstrip()


def _joined(names: Iterable[str]) -> str:
    unique = list(dict.fromkeys(names))
    more = f" and {len(unique) - SHOWN} more" if len(unique) > SHOWN else ""
    return ", ".join(unique[:SHOWN]) + more


def _attribute(attribute: onnx.AttributeProto) -> str:
    if attribute.type in _CONTENT:
        return f"{attribute.name} {attribute.t.data_type} {list(attribute.t.dims)}"
    if attribute.type in {onnx.AttributeProto.GRAPH, onnx.AttributeProto.GRAPHS}:
        return attribute.name
    return attribute.SerializeToString(deterministic=True).hex()
