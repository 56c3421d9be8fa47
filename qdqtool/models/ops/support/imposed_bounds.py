"""Find the bounds that the range of a Q imposes in place of a Relu or Clip that a quantizer removed.

Every Q saturates. Most ranges only cover the values that calibration saw, so they clip nothing. But ONNX Runtime's
quantizer removes a Relu or Clip before a Q if the range of the Q ends at the same bounds (measured with 1.31.1). The
range is then the only nonlinearity. Such a range has one of two marks:

- The zero point is the lowest code, and the tensor may be negative: the Q computes max(x, 0).
- A bound is a round number such as 6: a range that comes from data does not end there by chance.

Code that removes such a pair, or makes it symmetric, must restore the Relu or Clip.
"""

import math
from dataclasses import dataclass

import ml_dtypes
import numpy as np
from onnx import TensorProto

from qdqtool.models import ops
from qdqtool.models.graph.index.constants import Constants
from qdqtool.models.graph.index.model_index import ModelIndex
from qdqtool.models.graph.index.qdq import QdqNode
from qdqtool.models.graph.index.view import NodeView, Value
from qdqtool.numerics import formats
from qdqtool.numerics.dtypes import Array
from qdqtool.numerics.granularity import PerTensor

MAX_STEPS = 64

LOWEST = {
    TensorProto.UINT8: 0,
    TensorProto.INT8: -128,
    TensorProto.UINT16: 0,
    TensorProto.INT16: -32768,
    TensorProto.UINT4: 0,
    TensorProto.INT4: -8,
}
"""The lowest code of each asymmetric type."""


def absorbs_relu(entry: QdqNode, index: ModelIndex) -> bool:
    """Return whether a Q sets negative values to zero, and its input may have negative values."""
    if not entry.is_quantize or entry.data is None or not _starts_at_zero(entry, index.constants):
        return False
    return not is_nonnegative(entry.data, index)


def is_nonnegative(value: Value, index: ModelIndex) -> bool:
    """Return whether a tensor is known to have no negative values, from constants or the operators that make it."""
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
    """Return the tensors that must be nonnegative to make ``value`` nonnegative; None if it may be negative anyway."""
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
        return node.inputs
    return [node.input(0)] if known.keeps_sign else None


def _lifts_above_zero(add: NodeView, index: ModelIndex) -> bool:
    """Return whether an Add adds a constant that is at least the magnitude of the other input, such as 1 + erf(x)."""
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
    """Return the smallest value of a constant (also of stored codes with one scale), or None for other tensors."""
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
    """Return whether every zero point is the lowest code of the integer type."""
    lowest = next((low for each, low in LOWEST.items() if each == entry.quantized_type), None)
    if entry.zero_point is None:
        return lowest == 0
    zero = constants.array(entry.zero_point) if constants.is_constant(entry.zero_point) else None
    return zero is not None and lowest is not None and bool((zero.astype("float64") == lowest).all())


RELU6 = 6.0

EXACT = 1e-6
"""Relative precision of a bound that is computed from a float32 scale: a few roundings. At this precision a number with
one significant digit, such as 6 or 20, does not occur by chance, not even for a scale with few digits (0.02 gives 5.1).
A 16-bit scale is less precise, so only the 6 of a Relu6 is recognized."""

HALF_STEP = 0.501
"""Rounding the zero point shifts a range by at most this many steps; for bounds such as -1 and 1, by half a step."""


@dataclass(frozen=True, slots=True)
class ImposedBounds:
    """The bounds that a Q imposes on its tensor, in addition to rounding.

    Attributes:
        low: Lower bound; minus infinity if there is none.
        high: Upper bound; infinity if there is none.
    """

    low: float = -math.inf
    high: float = math.inf

    @property
    def is_relu(self) -> bool:
        """Whether a Relu imposes the same bounds."""
        return self == ImposedBounds(low=0.0)


NO_BOUNDS = ImposedBounds()


class UnknownBoundsError(ValueError):
    """A Q may replace a Relu or Clip, but its constants do not tell which bounds were intended."""


def imposed_bounds(entry: QdqNode, index: ModelIndex) -> ImposedBounds:
    """Return the bounds that a Q imposes in place of a Relu or Clip, or :data:`NO_BOUNDS` if it replaces none."""
    data = entry.data
    fmt = formats.by_onnx_type(entry.quantized_type) if entry.quantized_type is not None else None
    if data is None or fmt is None or fmt.kind != "integer" or _is_given(data, index):
        return NO_BOUNDS
    zero_points = _zero_points(entry, index)
    scale = index.constants.array(entry.scale) if entry.scale is not None else None
    if entry.granularity != PerTensor() or scale is None or zero_points.size != 1:
        return _of_channels(entry, zero_points == fmt.low, index)
    zero_point = float(zero_points.item())
    span = _Range(float(scale.item()), fmt.low - zero_point, fmt.high - zero_point, _precision_of(scale))
    if zero_point == fmt.low:
        return ImposedBounds(0.0, span.written_top()) if absorbs_relu(entry, index) else NO_BOUNDS
    return span.written_bounds() if _is_sum(data) else NO_BOUNDS


def _zero_points(entry: QdqNode, index: ModelIndex) -> Array:
    if entry.zero_point is None:
        return np.zeros(())
    found = index.constants.array(entry.zero_point) if index.constants.is_constant(entry.zero_point) else None
    if found is None:
        raise UnknownBoundsError("its zero point is computed")
    return found.astype(np.float64)


def _of_channels(entry: QdqNode, at_low: Array, index: ModelIndex) -> ImposedBounds:
    if at_low.all():
        return ImposedBounds(0.0) if absorbs_relu(entry, index) else NO_BOUNDS
    if at_low.any() and entry.data is not None and not is_nonnegative(entry.data, index):
        raise UnknownBoundsError("it cuts off negative values in some channels only")
    return NO_BOUNDS


@dataclass(frozen=True, slots=True)
class _Range:
    """The range of a Q with a single scale.

    Attributes:
        scale: The scale.
        bottom: The lowest code minus the zero point.
        top: The highest code minus the zero point.
        precision: Relative precision of the scale.
    """

    scale: float
    bottom: float
    top: float
    precision: float

    def written_top(self) -> float:
        """Return the upper end if it is a round number (the 6 of Relu6), or infinity if it comes from data."""
        return self._written(self.top) or math.inf

    def written_bounds(self) -> ImposedBounds:
        """Return the ends if they are round numbers (-1 and 1), or :data:`NO_BOUNDS` if they come from data."""
        # The zero point is rounded to a whole code. The range keeps its width, the distance of the bounds, but is
        # shifted by at most half a step.
        width, bottom = self._written(self.top - self.bottom), self.bottom * self.scale
        low = _one_digit(bottom)
        if not width or abs(low - bottom) > self.scale * HALF_STEP:
            return NO_BOUNDS
        high = _one_digit(low + width)
        return ImposedBounds(low, high) if math.isclose(high - low, width, rel_tol=1e-9) else NO_BOUNDS

    def _written(self, steps: float) -> float | None:
        value = steps * self.scale
        candidate = _one_digit(value)
        is_near = abs(candidate - value) <= self.precision * abs(value)
        return candidate if is_near and (self.precision <= EXACT or candidate == RELU6) else None


def _precision_of(scale: Array) -> float:
    return EXACT if scale.dtype.itemsize > 2 else float(ml_dtypes.finfo(scale.dtype).eps)  # type: ignore[no-untyped-call]


def _one_digit(value: float) -> float:
    return float(f"{value:.0e}")


def _is_given(value: Value, index: ModelIndex) -> bool:
    """Return whether a tensor is constant or a (moved) graph input. Then there was no Relu before the Q."""
    found: Value | None = value
    for _ in range(MAX_STEPS):
        if found is None or index.constants.is_constant(found):
            return True
        if found.producer is None or not ops.moves_values(found.producer):
            return found.producer is None
        found = found.producer.input(0)
    return False


def _is_sum(value: Value) -> bool:
    """Return whether a weighted operator or an Add makes a tensor; such a tensor has no bounds of its own."""
    producer = value.producer
    return producer is not None and (ops.product(producer) is not None or producer.is_op("Add"))
