"""PyTorch's ``quantize_per_tensor``, ``quantize_per_channel`` and ``dequantize`` on NumPy arrays, bit for bit.

PyTorch does not divide: it multiplies by the float32 reciprocal of the scale, and adds the zero point *before* it
rounds to codes. ``quantize_per_tensor`` to 8 bits does both in one fused step with one rounding to float32.
``quantize_per_channel`` and qint32 round the product first. With an odd zero point, the code of every exact tie differs
by one step from ONNX. ``dequantize`` uses per-tensor scales as float32, and per-channel scales as double. ``axis`` is
the kept dimension.

Source: measured on PyTorch 2.13 for x86-64; PyTorch's documentation has ONNX's formula.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, overload

import numpy as np
from numpy.typing import ArrayLike, DTypeLike, NDArray

from qdqtool.errors import ArgumentError
from qdqtool.interop._arguments import format_named
from qdqtool.interop._graph import ChainNode, Dequantize, GraphPiece, tensor_type
from qdqtool.numerics import formats
from qdqtool.numerics.dtypes import FLOAT32, FLOAT64, Array
from qdqtool.numerics.granularity import Granularity, PerAxis, PerTensor, expand
from qdqtool.numerics.number_format import NumberFormat

__all__ = [
    "QuantizedArray",
    "dequantize",
    "dequantize_graph",
    "quantize_graph",
    "quantize_per_channel",
    "quantize_per_tensor",
]

FORMATS = {"qint8": "int8", "quint8": "uint8", "qint32": "int32"}
"""PyTorch's names of the quantized types, and the names in qdqtool; both are accepted."""


@dataclass(frozen=True, slots=True, eq=False)
class QuantizedArray:
    """A quantized array with its parameters, as a quantized tensor of PyTorch.

    Attributes:
        codes: int8, uint8 or int32.
        scales: float64, a scalar or one scale for each index of the axis.
        zero_points: int64, in the shape of ``scales``.
        granularity: Per-tensor or per-axis.
    """

    codes: NDArray[Any]
    scales: NDArray[Any]
    zero_points: NDArray[Any]
    granularity: Granularity

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape of the array."""
        return self.codes.shape

    def int_repr(self) -> NDArray[Any]:
        """Return the codes."""
        return self.codes

    def dequantize(self) -> NDArray[Any]:
        """Return ``(code - zero_point) * scale`` as float32; the product of per-channel scales is a double first."""
        if isinstance(self.granularity, PerTensor):
            return self._canonical().run()
        scales: Array = expand(self.scales, self.shape, self.granularity)
        zeros: Array = expand(self.zero_points, self.shape, self.granularity)
        return np.asarray(((self.codes.astype(np.int64) - zeros) * scales).astype(FLOAT32))

    def q_scale(self) -> float:
        """Return the scale of a per-tensor array, in double precision."""
        self._only(PerTensor, "q_scale")
        return float(self.scales)

    def q_zero_point(self) -> int:
        """Return the zero point of a per-tensor array."""
        self._only(PerTensor, "q_zero_point")
        return int(self.zero_points)

    def q_per_channel_scales(self) -> NDArray[Any]:
        """Return the scales of a per-channel array, float64."""
        self._only(PerAxis, "q_per_channel_scales")
        return self.scales

    def q_per_channel_zero_points(self) -> NDArray[Any]:
        """Return the zero points of a per-channel array, int64."""
        self._only(PerAxis, "q_per_channel_zero_points")
        return self.zero_points

    def q_per_channel_axis(self) -> int:
        """Return the kept dimension of a per-channel array."""
        self._only(PerAxis, "q_per_channel_axis")
        assert isinstance(self.granularity, PerAxis)
        return self.granularity.axis

    def _only(self, kind: type[PerTensor | PerAxis], what: str) -> None:
        if not isinstance(self.granularity, kind):
            raise ArgumentError(f"{what} does not exist; the array is {self.granularity}")

    def _canonical(self) -> Dequantize:
        fmt = formats.by_dtype(self.codes.dtype)
        assert fmt is not None
        zero = self.zero_points.astype(self.codes.dtype) if self.zero_points.any() else None
        return Dequantize(self.codes, self.scales.astype(FLOAT32), self.granularity, FLOAT32, fmt, zero)


def quantize_per_tensor(input: ArrayLike, scale: float, zero_point: int, dtype: DTypeLike) -> QuantizedArray:  # noqa: A002
    """Quantize with one scale: ``clamp(round(fma(input, float32(1 / scale), zero_point)))``.

    Args:
        input: float32 values, or a list of numbers.
        scale: Real value of one step, finite and positive; kept in double precision, used in float32.
        zero_point: Code of real zero, inside the range of ``dtype``.
        dtype: qint8, quint8 or qint32.

    Returns:
        The quantized array. NaN becomes the highest code of qint8 and quint8, and the lowest code of qint32.

    Raises:
        ArgumentError: An argument is illegal; the message names it, its value and the legal values.
    """
    values, fmt = _input(input), format_named(dtype, FORMATS)
    scales, zeros = _scales(scale, 0), _zero_points(zero_point, fmt, ())
    fused = fmt.bits == 8
    codes = _round(_transform(values, _reciprocal(scales), zeros, fused=fused), fmt, fmt.high if fused else fmt.low)
    return QuantizedArray(codes, scales, zeros, PerTensor())


def quantize_per_channel(
    input: ArrayLike,  # noqa: A002
    scales: ArrayLike,
    zero_points: ArrayLike,
    axis: int,
    dtype: DTypeLike,
) -> QuantizedArray:
    """Quantize with one scale for each index of ``axis``: ``clamp(round(input * float32(1 / scale) + zero_point))``.

    Args:
        input: float32 values, or a list of numbers.
        scales: One scale for each index of ``axis``, finite and positive; kept in double precision, used in float32.
        zero_points: The code of real 0 for each index of ``axis``.
        axis: The kept dimension, not negative.
        dtype: qint8, quint8 or qint32.

    Returns:
        The quantized array. NaN becomes code 0 of qint8 and quint8, and the lowest code of qint32.

    Raises:
        ArgumentError: An argument is illegal; the message names it, its value and the legal values.
    """
    values, fmt = _input(input), format_named(dtype, FORMATS)
    if not 0 <= axis < values.ndim:
        raise ArgumentError(f"axis is {axis}; legal: 0 to {values.ndim - 1}")
    steps = _scales(scales, 1)
    if steps.size != values.shape[axis]:
        raise ArgumentError(f"scales has {steps.size} elements; dimension {axis} of the input has {values.shape[axis]}")
    zeros, kept = _zero_points(zero_points, fmt, steps.shape), PerAxis(axis)
    inverse, added = (expand(array, values.shape, kept) for array in (_reciprocal(steps), zeros))
    codes = _round(_transform(values, inverse, added, fused=False), fmt, 0 if fmt.bits == 8 else fmt.low)
    return QuantizedArray(codes, steps, zeros, kept)


@overload
def dequantize(tensor: QuantizedArray | ArrayLike) -> NDArray[Any]: ...
@overload
def dequantize(tensor: list[QuantizedArray]) -> list[NDArray[Any]]: ...
def dequantize(tensor: QuantizedArray | ArrayLike | list[QuantizedArray]) -> NDArray[Any] | list[NDArray[Any]]:
    """Return the real values of a quantized array, or of each array of a list; a plain array becomes float32."""
    if isinstance(tensor, QuantizedArray):
        return tensor.dequantize()
    if isinstance(tensor, Sequence) and tensor and isinstance(tensor[0], QuantizedArray):
        return [dequantize(each) for each in tensor]
    return np.asarray(tensor).astype(FLOAT32)


def quantize_graph(q: QuantizedArray) -> GraphPiece:
    """Return the ONNX nodes that quantize float32 as ``q`` was quantized, with ties rounded as in PyTorch.

    The fused step is Mul and Add in double, where the product is exact, and one Cast to float32.

    Raises:
        ArgumentError: ``q`` is qint32: ONNX cannot clip exactly to its range in float32.
    """
    fmt = formats.by_dtype(q.codes.dtype)
    assert fmt is not None
    if fmt.bits != 8:
        raise ArgumentError(f"dtype is {fmt}; legal: qint8, quint8")
    fused = isinstance(q.granularity, PerTensor)
    work = FLOAT64 if fused else FLOAT32
    inverse, zero = (expand(a, q.shape, q.granularity).astype(work) for a in (_reciprocal(q.scales), q.zero_points))
    to_double = (ChainNode("Cast", (), {"to": 11}),) if fused else ()
    to_float = (ChainNode("Cast", (), {"to": 1}),) if fused else ()
    scaled = ChainNode("Mul", ("inverse",)), ChainNode("Add", ("zero_point",))
    clipped = ChainNode("Round"), ChainNode("Clip", ("low", "high")), ChainNode("Cast", (), {"to": fmt.onnx_type})
    parts = (*to_double, *scaled, *to_float, *clipped)
    low, high = np.asarray(fmt.low, FLOAT32), np.asarray(fmt.high, FLOAT32)
    constants = {"inverse": inverse, "zero_point": zero, "low": low, "high": high}
    return GraphPiece(parts, constants, 1, fmt.onnx_type, 13)


def dequantize_graph(q: QuantizedArray) -> GraphPiece:
    """Return the ONNX nodes of ``q.dequantize()``: a DequantizeLinear, or double arithmetic if scales need it.

    Raises:
        ArgumentError: ``q`` is qint32 with a zero point, which ONNX does not allow.
    """
    if q.codes.dtype == np.int32 and q.zero_points.any():
        raise ArgumentError("zero_point is not 0; DequantizeLinear of int32 allows only 0")
    if isinstance(q.granularity, PerTensor) or np.array_equal(q.scales, q.scales.astype(FLOAT32)):
        return q._canonical().graph()  # noqa: SLF001 -- of this module
    scale, zero = (expand(a, q.shape, q.granularity).astype(FLOAT64) for a in (q.scales, q.zero_points))
    parts = (ChainNode("Cast", (), {"to": 11}), ChainNode("Sub", ("zero_point",)), ChainNode("Mul", ("scale",)))
    constants = {"scale": scale, "zero_point": zero}
    return GraphPiece((*parts, ChainNode("Cast", (), {"to": 1})), constants, tensor_type(q.codes.dtype), 1, 13)


def _reciprocal(scales: Array) -> Array:
    with np.errstate(over="ignore", divide="ignore"):
        return np.asarray(np.float32(1) / scales.astype(FLOAT32))


def _transform(values: Array, inverse: Array, zero: Array, *, fused: bool) -> Array:
    """Return ``values * inverse + zero`` as float32: rounded once if ``fused``, or after each operation."""
    with np.errstate(all="ignore"):
        if not fused:
            return np.asarray(values * inverse + zero.astype(FLOAT32))
        product, offset = values.astype(FLOAT64) * inverse.astype(FLOAT64), zero.astype(FLOAT64)
        total = product + offset
        # The part that the float64 sum loses (Knuth's two-sum) decides ties of the rounding to float32. Rounding the
        # sum to odd keeps this information, so that both roundings together equal one.
        kept = total - product
        lost = (product - (total - kept)) + (offset - kept)
        even = (np.asarray(total).view(np.int64) & 1) == 0
        odd = np.where((lost != 0) & np.isfinite(lost) & even, np.nextafter(total, np.copysign(np.inf, lost)), total)
        return np.asarray(odd.astype(FLOAT32))


def _round(transformed: Array, fmt: NumberFormat, nan: float) -> Array:
    rounded = np.where(np.isnan(transformed), nan, np.rint(transformed).astype(FLOAT64))
    return np.asarray(np.clip(rounded, fmt.low, fmt.high).astype(fmt.dtype))


def _input(x: ArrayLike) -> Array:
    values = np.asarray(x)
    if not isinstance(x, np.ndarray | np.generic) and values.dtype.kind in "iuf":
        values = values.astype(FLOAT32)
    if values.dtype != FLOAT32:
        raise ArgumentError(f"input has type {values.dtype}; legal: float32")
    return values


def _scales(scales: ArrayLike, rank: int) -> Array:
    steps = np.asarray(scales, FLOAT64)
    if steps.ndim != rank:
        raise ArgumentError(f"scale has rank {steps.ndim}; legal: {rank}")
    with np.errstate(over="ignore"):
        used = steps.astype(FLOAT32)
    if not (np.isfinite(used) & (used > 0)).all():
        raise ArgumentError("scale must be finite and greater than 0 in float32")
    return steps


def _zero_points(zero_points: ArrayLike, fmt: NumberFormat, shape: tuple[int, ...]) -> Array:
    zeros = np.asarray(zero_points)
    if zeros.shape != shape:
        raise ArgumentError(f"zero_point has shape {list(zeros.shape)}, not the shape of scale, {list(shape)}")
    if zeros.dtype.kind not in "iu":
        raise ArgumentError(f"zero_point has type {zeros.dtype}; legal: integers")
    outside = (zeros < fmt.low) | (zeros > fmt.high)
    if outside.any():
        raise ArgumentError(f"zero_point is {zeros[outside].flat[0]}; {fmt} allows {fmt.low:.0f} to {fmt.high:.0f}")
    return zeros.astype(np.int64)


def __dir__() -> list[str]:
    return sorted(__all__)
