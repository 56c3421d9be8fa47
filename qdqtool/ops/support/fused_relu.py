"""Find Relus that a quantizer removed because a Q clips at zero: its zero point is the lowest code.

ONNX Runtime's quantizer removes such Relu nodes. Code that removes the pair, or makes it symmetric, must restore them.
"""

from onnx import TensorProto

from qdqtool import ops
from qdqtool.graph.index.constants import Constants
from qdqtool.graph.index.model_index import ModelIndex
from qdqtool.graph.index.qdq import QdqNode
from qdqtool.graph.index.view import Value

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
    """Return whether a tensor is known to have no negative values, from the operators that produce it."""
    found: Value | None = value
    for _ in range(MAX_STEPS):
        entry = index.qdq.maker(found)
        if entry is not None:
            if _starts_at_zero(entry, index.constants):
                return True
            found = entry.data
            continue
        producer = found.producer if found is not None else None
        if producer is None or not ops.traits(producer).keeps_sign:
            return producer is not None and ops.traits(producer).nonnegative
        found = producer.input(0)
    return False


def _starts_at_zero(entry: QdqNode, constants: Constants) -> bool:
    """Return whether every zero point is the lowest code of an integer type."""
    lowest = next((low for each, low in LOWEST.items() if each == entry.quantized_type), None)
    if entry.zero_point is None:
        return lowest == 0
    zero = constants.array(entry.zero_point) if constants.is_constant(entry.zero_point) else None
    return zero is not None and lowest is not None and bool((zero.astype("float64") == lowest).all())
