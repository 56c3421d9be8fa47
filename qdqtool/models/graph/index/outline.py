"""The operators of the main graph and what connects them, without Q and DQ nodes: enough to draw the model."""

from collections.abc import Mapping
from dataclasses import dataclass

from onnx import TensorProto

from qdqtool.models.graph.index.qdq import DEQUANTIZE, QUANTIZE
from qdqtool.models.graph.index.view import GraphView, NodeView, Value
from qdqtool.models.graph.model import Model
from qdqtool.numerics import formats

OUTSIDE = -1
"""The number of a producer that is no operator: an input of the model."""

_PAIR = frozenset({QUANTIZE, DEQUANTIZE})
_UNKNOWN = "quantized"
_LONGEST = 16
"""Q and DQ nodes in a row that are looked through."""


@dataclass(frozen=True, slots=True)
class OutlineNode:
    """One operator of the main graph.

    Attributes:
        name: Its label.
        op_type: Its operator.
        inputs: The number in the outline of the operator that makes each of its inputs, -1 for an input of the model.
            Constants are left out, and so is what the body of an If or Loop reads.
        formats: For each of these inputs the format of its Q/DQ pair; empty for an input in float.
        weights: The format of its first constant behind a DQ; empty where it has none.
    """

    name: str
    op_type: str
    inputs: tuple[int, ...]
    formats: tuple[str, ...]
    weights: str


def outline(model: Model) -> tuple[OutlineNode, ...]:
    """Return the operators of the main graph in its order, Q and DQ nodes and Constant nodes left out."""
    view = GraphView(model)
    nodes = [node for node in view.main.nodes if node.op_type not in _PAIR and not node.is_op("Constant")]
    numbers = {id(node): number for number, node in enumerate(nodes)}
    return tuple(_outlined(node, numbers) for node in nodes)


def _outlined(node: NodeView, numbers: Mapping[int, int]) -> OutlineNode:
    read = [_source(value) for value in map(node.input, range(len(node.proto.input))) if value is not None]
    flowing = [(value, kind) for value, kind in read if not _is_constant(value)]
    weights = [kind for value, kind in read if kind and _is_constant(value)]
    return OutlineNode(
        name=node.label,
        op_type=node.op_type,
        inputs=tuple(numbers.get(id(value.producer), OUTSIDE) for value, _ in flowing),
        formats=tuple(kind for _, kind in flowing),
        weights=weights[0] if weights else "",
    )


def _is_constant(value: Value) -> bool:
    return value.initializer is not None or (value.producer is not None and value.producer.is_op("Constant"))


def _source(value: Value) -> tuple[Value, str]:
    """Return the tensor before the Q and DQ nodes that make a value, and the format of the last of them."""
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
    """Return the format of what a DQ reads."""
    onnx_type = _type(codes)
    maker = codes.producer
    if maker is not None and maker.op_type == QUANTIZE:
        zero_point = maker.input(2)
        stored = _type(zero_point) if zero_point is not None else None
        onnx_type = stored or maker.attribute("output_dtype") or TensorProto.UINT8
    found = formats.by_onnx_type(onnx_type) if onnx_type is not None else None
    return found.name if found is not None else _UNKNOWN


def _type(constant: Value) -> int | None:
    """Return the type of a constant; None where it is none."""
    if constant.initializer is not None:
        return constant.initializer.data_type
    stored = constant.producer.attribute("value") if constant.producer is not None else None
    return stored.data_type if isinstance(stored, TensorProto) else None
