"""Compute QuantizeLinear and DequantizeLinear on arrays.

Quantize: ``saturate(round_half_even(x / scale) + zero_point)`` with the quotient rounded once to the division
precision. Dequantize: ``(q - zero_point) * scale`` in float32, rounded once to the output type.
Source: the ONNX operator text of QuantizeLinear and DequantizeLinear. ``docs/reference/numerics.md`` covers the cases
that this text leaves open.
"""

import itertools
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from types import EllipsisType
from typing import Any

import numpy as np
import numpy.typing as npt

from qdqtool.errors import ArgumentError
from qdqtool.numerics import kernels
from qdqtool.numerics.dtypes import FLOAT8E8M0, FLOAT16, FLOAT32, FLOAT64, REAL_TYPES, SCALE_TYPES, Array
from qdqtool.numerics.granularity import Blocked, Granularity, PerAxis, PerTensor, check_scale_shape, normalize_axis
from qdqtool.numerics.number_format import NumberFormat
from qdqtool.numerics.rounding import division, to_float, to_integer

PIECE = 1 << 15
"""Number of elements of a piece, whose float32 temporaries then fit the second-level cache of a core."""

Index = tuple[int | slice | EllipsisType, ...]


def pieces(
    arrays: Sequence[Array], parameters: Sequence[Array | None], granularity: Granularity
) -> Iterator[tuple[list[Array], list[Array | None]]]:
    """Yield, piece by piece, matching views of ``arrays`` and of ``parameters``, all of one shape.

    Args:
        arrays: Arrays of one shape. Output arrays must be C-contiguous: writing to a view then writes to the array.
        parameters: Scales and zero points, in the shape that ``granularity`` requires; None is yielded as None.
        granularity: Which elements share a parameter.

    Yields:
        The pieces; together they cover every element once.
    """
    shape = arrays[0].shape
    for parameter in parameters:
        if parameter is not None:
            check_scale_shape(parameter.shape, shape, granularity)
    for whole, part in _aligned(shape, granularity):
        views = [whole(array) for array in arrays]
        spread = [None if p is None else np.broadcast_to(part(p), views[0].shape) for p in parameters]
        for index in _chunks(views[0].shape):
            yield [view[index] for view in views], [None if p is None else p[index] for p in spread]


def _aligned(shape: tuple[int, ...], granularity: Granularity) -> Iterator[tuple["_View", "_View"]]:
    """Yield views of the array and of the parameter that broadcast together; a short last block gets its own views."""
    match granularity:
        case PerTensor():
            yield _View(), _View(())
        case PerAxis(axis):
            axis = normalize_axis(axis, len(shape))
            yield _View(), _View((-1, *[1] * (len(shape) - axis - 1)))
        case Blocked(axis, size):
            axis = normalize_axis(axis, len(shape))
            before, length, after = shape[:axis], shape[axis], shape[axis + 1 :]
            full, rest = divmod(length, size)
            lead = (slice(None),) * axis
            if full or not rest:
                yield (
                    _View((*before, full, size, *after), (*lead, slice(0, full * size))),
                    _View((*before, full, 1, *after), (*lead, slice(0, full))),
                )
            if rest:
                yield _View(None, (*lead, slice(full * size, length))), _View(None, (*lead, slice(full, full + 1)))


@dataclass(frozen=True, slots=True)
class _View:
    """A slice and then a reshape; neither copies."""

    shape: tuple[int, ...] | None = None
    index: Index = (...,)

    def __call__(self, array: Array) -> Array:
        part = array[self.index]
        return part if self.shape is None else part.reshape(self.shape)


def _chunks(shape: tuple[int, ...]) -> Iterator[Index]:
    """Yield indices that cut an array of ``shape`` into runs of about :data:`PIECE` elements along its first axes."""
    if math.prod(shape) <= PIECE:
        yield (...,)
        return
    axis = next(axis for axis in range(len(shape)) if math.prod(shape[axis + 1 :]) <= PIECE)
    step = max(1, PIECE // math.prod(shape[axis + 1 :]))
    for lead in itertools.product(*map(range, shape[:axis])):
        for start in range(0, shape[axis], step):
            yield (*lead, slice(start, start + step), ...)


def quantize(  # noqa: PLR0913 -- the inputs and attributes of the operator
    x: Array,
    scale: Array,
    fmt: NumberFormat,
    granularity: Granularity,
    zero_point: Array | None = None,
    *,
    precision: npt.DTypeLike | None = None,
    saturate: bool = True,
) -> Array:
    """Quantize ``x``.

    Args:
        x: Values of any shape: float32, float16, bfloat16 or int32. float64 is rounded to float32 first.
        scale: Real value of one step, in the shape that ``granularity`` requires: float32, float16, bfloat16 or
            float8e8m0. float64 is rounded to float32 first. Zero, infinity and NaN are not refused.
        fmt: Format of the result.
        granularity: Which elements share a scale.
        zero_point: The code of real 0 for each scale, in the scale's shape; None for code 0.
        precision: Type to which the quotient is rounded once: float32, float16 or bfloat16. The default is the scale's
            type, or float32 for float8e8m0 scales.
        saturate: Whether fp8 values that round beyond the range become the largest value. Otherwise they become
            infinity or NaN (see ``fmt.overflow``). Integers, fp6 and fp4 always saturate.

    Returns:
        An array of ``x``'s shape and type ``fmt.dtype``. Infinities saturate. NaN stays NaN if the format has NaN;
        otherwise it becomes the lowest value.

    Raises:
        ArgumentError: A shape, a type or the zero point is illegal, or ONNX does not quantize to ``fmt``.
    """
    if fmt.first_opset.quantize is None:
        raise ArgumentError(f"format is {fmt}; ONNX does not quantize to it")
    x, scale = _single(x, "x", (*REAL_TYPES, np.dtype(np.int32))), _single(scale, "scale", SCALE_TYPES)
    divide = division(x.dtype, scale.dtype, None if precision is None else np.dtype(precision))
    zero = _zero_point(zero_point, fmt)
    # The compiled kernels divide float32 by float32, and always saturate.
    plain = divide.work == divide.precision and (saturate or not fmt.has_nan)
    if plain and scale.dtype == FLOAT32 and kernels.supports(fmt) and kernels.wanted(x):
        return kernels.quantize(x, scale, fmt, granularity, zero)
    if divide.precision == FLOAT16 and zero is None and kernels.wanted_half(x, scale, fmt):
        return kernels.quantize_half(x, scale, fmt, granularity)
    codes = np.empty(x.shape, fmt.dtype)
    with np.errstate(all="ignore"):
        walk = pieces((x, codes), (scale.astype(divide.work), zero), granularity)
        for (values, out), (step, offset) in walk:
            assert step is not None
            quotient = divide(values, step)
            if fmt.kind == "integer":
                out[...] = to_integer(quotient, fmt, offset)
            else:
                out[...] = to_float(quotient, fmt, saturate=saturate)
    return codes


def dequantize(
    q: Array,
    scale: Array,
    granularity: Granularity,
    zero_point: Array | None = None,
    *,
    output_dtype: npt.DTypeLike | None = None,
) -> Array:
    """Dequantize ``q``.

    Args:
        q: Codes of any shape, in a quantized type or int32.
        scale: Real value of one step, in the shape that ``granularity`` requires; types as for :func:`quantize`.
        granularity: Which elements share a scale.
        zero_point: The code of real 0 for each scale, in the scale's shape; None for code 0.
        output_dtype: Type of the result: float32, float16 or bfloat16. The default is the scale's type, or float32 for
            float8e8m0 scales.

    Returns:
        An array of ``q``'s shape.

    Raises:
        ArgumentError: A shape or a type is illegal.
    """
    scale = _single(scale, "scale", SCALE_TYPES)
    default = FLOAT32 if scale.dtype == FLOAT8E8M0 else scale.dtype
    output = np.dtype(output_dtype) if output_dtype is not None else default
    if output not in REAL_TYPES:
        raise ArgumentError(f"output_dtype is {output}; legal: {', '.join(map(str, REAL_TYPES))}")
    result = np.empty(q.shape, output)
    with np.errstate(all="ignore"):
        for (codes, out), (step, zero) in pieces((q, result), (scale.astype(FLOAT32), zero_point), granularity):
            # Two roundings, as in ONNX Runtime and onnx's ReferenceEvaluator: the product to float32, then to the
            # output type.
            out[...] = _distance(codes, zero) * step
    return result


def fake_quantize(
    x: Array, scale: Array, fmt: NumberFormat, granularity: Granularity, zero_point: Array | None = None
) -> Array:
    """Quantize ``x`` and dequantize the codes: the values that a model with a Q/DQ pair computes with.

    Args:
        x: As for :func:`quantize`.
        scale: As for :func:`quantize`.
        fmt: Format of the codes in between.
        granularity: Which elements share a scale.
        zero_point: As for :func:`quantize`.

    Returns:
        An array of ``x``'s shape and type; float32 if ``x`` is float64 or int32.

    Raises:
        ArgumentError: A shape, a type or the zero point is illegal.
    """
    output = x.dtype if x.dtype in REAL_TYPES else FLOAT32
    codes = quantize(x, scale, fmt, granularity, zero_point)
    return dequantize(codes, scale, granularity, zero_point, output_dtype=output)


def _distance(codes: Array, zero: Array | None) -> Array:
    """Return ``codes - zero`` as float32, rounded once. Only differences of int32 codes need that rounding."""
    if zero is None:
        return codes.astype(FLOAT32)
    if codes.dtype == np.int32:
        return (codes.astype(np.int64) - zero.astype(np.int64)).astype(FLOAT32)
    return codes.astype(FLOAT32) - zero.astype(FLOAT32)


def _single(array: Array, name: str, legal: Sequence[np.dtype[Any]]) -> Array:
    """Return an array of a legal type, with float64 rounded to float32."""
    if array.dtype == FLOAT64:
        with np.errstate(over="ignore"):
            return array.astype(FLOAT32)
    if array.dtype not in legal:
        raise ArgumentError(f"{name} has type {array.dtype}; legal: {', '.join(map(str, legal))}, float64")
    return array


def _zero_point(zero_point: Array | None, fmt: NumberFormat) -> Array | None:
    """Return the zero point as float32, or None if it is zero everywhere."""
    if zero_point is None:
        return None
    zero = zero_point.astype(FLOAT32)
    if fmt.zero_point == "zero":
        if np.any(zero != 0):
            raise ArgumentError(f"zero_point is {float(zero[zero != 0].flat[0]):g}; {fmt} allows only 0")
        return None
    outside = (zero < fmt.low) | (zero > fmt.high)
    if outside.any():
        legal = f"{fmt.low:g} to {fmt.high:g}"
        raise ArgumentError(f"zero_point is {float(zero[outside].flat[0]):g}; {fmt} allows {legal}")
    return zero
