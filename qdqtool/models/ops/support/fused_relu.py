"""Find Relus that a quantizer removed because a Q clips at zero: its zero point is the lowest code.

ONNX Runtime's quantizer removes such Relu nodes. Code that removes the pair, or makes it symmetric, must restore them.
"""

import numpy as np
from onnx import TensorProto

from qdqtool.models import ops
from qdqtool.models.graph.index.constants import Constants
from qdqtool.models.graph.index.model_index import ModelIndex
from qdqtool.models.graph.index.qdq import QdqNode
from qdqtool.models.graph.index.view import NodeView, Value

MAX_STEPS = 64

LOWEST = {
    TensorProto.UINT8: 0,
    TensorProto.INT8: -128,
    TensorProto.UINT16: 0,
    TensorProto.INT16: -32768,
    TensorProto.UINT4: 0,
    TensorProto.INT4: -8,
}
"""The lowest code of the asymmetric types."""


def absorbs_relu(entry: QdqNode, index: ModelIndex) -> bool:
    """Return whether a Q clips values at zero that could be negative."""
    if not entry.is_quantize or entry.data is None or not _starts_at_zero(entry, index.constants):
        return False
    return not is_nonnegative(entry.data, index)


def is_nonnegative(value: Value, index: ModelIndex) -> bool:
    """Return whether a tensor is known to have no negative values, from its constants or the operators that make it."""
    waiting: list[Value | None] = [value]
    for _ in range(MAX_STEPS):
        if not waiting:
            return True
        sources = _sources_of_sign(waiting.pop(), index)
        if sources is None:
            return False
        waiting += sources
    return False


def _sources_of_sign(value: Value | None, index: ModelIndex) -> list[Value | None] | None:
    """Return the tensors that must not be negative for ``value`` not to be; None where it may be negative anyway."""
    lowest = _lowest_stored(value, index)
    if lowest is not None:
        return [] if lowest >= 0 else None
    entry = index.qdq.maker(value)
    if entry is not None:
        return [] if _starts_at_zero(entry, index.constants) else [entry.data]
    producer = value.producer if value is not None else None
    return _operands_of_sign(producer, index) if producer is not None else None


def _operands_of_sign(node: NodeView, index: ModelIndex) -> list[Value | None] | None:
    known = ops.traits(node)
    never = known.nonnegative or (known.nonnegative_if is not None and known.nonnegative_if(node, index.constants))
    if never or (node.is_op("Add") and _lifts_above_zero(node, index)):
        return []
    if known.keeps_sign_of_all:
        return [node.input(position) for position in range(len(node.proto.input))]
    return [node.input(0)] if known.keeps_sign else None


def _lifts_above_zero(add: NodeView, index: ModelIndex) -> bool:
    """Return whether an Add adds a constant to values that are no further below zero, as the 1 + erf(x) of a Gelu."""
    for position in (0, 1):
        lowest = _lowest_stored(add.input(position), index)
        if lowest is not None:
            magnitude = _largest_magnitude(add.input(1 - position), index)
            return magnitude is not None and magnitude <= lowest
    return False


def _largest_magnitude(value: Value | None, index: ModelIndex) -> float | None:
    entry = index.qdq.maker(value)
    while entry is not None:
        value = entry.data
        entry = index.qdq.maker(value)
    producer = value.producer if value is not None else None
    return ops.traits(producer).bound if producer is not None else None


def _lowest_stored(value: Value | None, index: ModelIndex) -> float | None:
    """Return the smallest value of a constant, also one that is stored as codes with one scale; None for others."""
    entry = index.qdq.dequantizer_of(value)
    codes = entry.data if entry is not None else value
    array = index.constant(codes) if codes is not None else None
    if array is None or not array.size:
        return None
    lowest = float(array.astype(np.float64).min())
    if entry is None:
        return lowest
    parameters = [index.constant(each) if each is not None else np.zeros(1) for each in (entry.scale, entry.zero_point)]
    if any(each is None or each.size != 1 for each in parameters):
        return None
    scale, zero_point = (float(each.astype(np.float64).item()) for each in parameters if each is not None)
    return (lowest - zero_point) * scale if scale >= 0 else None


def _starts_at_zero(entry: QdqNode, constants: Constants) -> bool:
    """Return whether every zero point is the lowest code of an integer type."""
    lowest = next((low for each, low in LOWEST.items() if each == entry.quantized_type), None)
    if entry.zero_point is None:
        return lowest == 0
    zero = constants.array(entry.zero_point) if constants.is_constant(entry.zero_point) else None
    return zero is not None and lowest is not None and bool((zero.astype("float64") == lowest).all())
