"""TensorRT's Quantize and Dequantize layers on NumPy arrays.

``axis`` is the dimension that is *kept*. A scale of one element is per-tensor for any axis, as in the example of the
reference page. A scale of the input's rank is blocked along one of the last two dimensions: the dimension in which it
is shorter. Zero points may be given but must be zero. Rounding is to nearest, ties to even, and codes are clamped.

Source: the reference pages of the operators. Like the newer pages, this module allows blocks along either of the last
two dimensions and for all formats, and float16 and bfloat16 scales.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, DTypeLike, NDArray

from qdqtool.errors import ArgumentError
from qdqtool.interop._arguments import codes_of, real_side, real_type, scale_array
from qdqtool.interop._graph import Dequantize, GraphPiece, Quantize
from qdqtool.numerics import formats
from qdqtool.numerics.dtypes import REAL_TYPES, Array
from qdqtool.numerics.granularity import Blocked, Granularity, PerAxis, PerTensor, normalize_axis
from qdqtool.numerics.number_format import NumberFormat
from qdqtool.numerics.scheme import check_scale_values

__all__ = ["dequantize", "dequantize_graph", "quantize", "quantize_graph"]

FORMATS = ("int8", "int4", "float8e4m3fn", "float4e2m1")
"""The formats that TensorRT quantizes to."""
FP4_BLOCK = 16


def quantize(
    input: ArrayLike,  # noqa: A002
    scale: ArrayLike,
    dtype: DTypeLike,
    axis: int | None = None,
    zero_point: ArrayLike | None = None,
) -> NDArray[Any]:
    """Quantize: ``clamp(round(input / scale))``.

    Args:
        input: float32, float16 or bfloat16 values; numbers, lists and float64 become float32.
        scale: Finite and positive: one element, 1-D of ``input.shape[axis]`` elements, or blocked.
        dtype: int8, int4, float8e4m3fn (``fp8``) or float4e2m1 (``fp4``).
        axis: The kept dimension of a 1-D scale.
        zero_point: Zeros in the scale's shape.

    Returns:
        Codes of the input's shape.

    Raises:
        ArgumentError: An argument is illegal; the message names it, its value and the legal values.
    """
    return _quantize(input, scale, dtype, axis, zero_point).run()


def dequantize(
    input: ArrayLike,  # noqa: A002
    scale: ArrayLike,
    dtype: DTypeLike = "float32",
    axis: int | None = None,
    zero_point: ArrayLike | None = None,
) -> NDArray[Any]:
    """Dequantize: ``(input - zero_point) * scale``, where the zero point is zero.

    Args:
        input: int8, int4, float8e4m3fn or float4e2m1 codes.
        scale: As for :func:`quantize`.
        dtype: float32, float16 or bfloat16.
        axis: As for :func:`quantize`.
        zero_point: As for :func:`quantize`.

    Returns:
        Values of the input's shape and type ``dtype``.

    Raises:
        ArgumentError: An argument is illegal; the message names it, its value and the legal values.
    """
    return _dequantize(input, scale, dtype, axis, zero_point).run()


def quantize_graph(
    input: ArrayLike,  # noqa: A002
    scale: ArrayLike,
    dtype: DTypeLike,
    axis: int | None = None,
    zero_point: ArrayLike | None = None,
) -> GraphPiece:
    """Return the ONNX nodes of the same :func:`quantize` call; only the shape and type of ``input`` are used."""
    return _quantize(input, scale, dtype, axis, zero_point).graph()


def dequantize_graph(
    input: ArrayLike,  # noqa: A002
    scale: ArrayLike,
    dtype: DTypeLike = "float32",
    axis: int | None = None,
    zero_point: ArrayLike | None = None,
) -> GraphPiece:
    """Return the ONNX nodes of the same :func:`dequantize` call; only the shape and type of ``input`` are used."""
    return _dequantize(input, scale, dtype, axis, zero_point).graph()


def _quantize(
    x: ArrayLike, scale: ArrayLike, dtype: DTypeLike, axis: int | None, zero_point: ArrayLike | None
) -> Quantize:
    values, fmt, step = real_side(x, "input"), _format(dtype), _scale(scale)
    _check_zero_point(zero_point, step.shape)
    return Quantize(values, step, fmt, _granularity(step.shape, values.shape, fmt, axis))


def _dequantize(
    q: ArrayLike, scale: ArrayLike, dtype: DTypeLike, axis: int | None, zero_point: ArrayLike | None
) -> Dequantize:
    output, step = real_type(dtype, "dtype"), _scale(scale)
    codes, fmt = codes_of(q, "input", FORMATS)
    _check_zero_point(zero_point, step.shape)
    return Dequantize(codes, step, _granularity(step.shape, codes.shape, fmt, axis), output, fmt)


def _format(dtype: DTypeLike) -> NumberFormat:
    name = str(dtype) if isinstance(dtype, str) else str(formats.by_dtype(np.dtype(dtype)))
    name = formats.ALIASES.get(name, name)
    if name not in FORMATS:
        nearest = "; a uint8 zero point z is int8 with zero point z - 128" if name == "uint8" else ""
        raise ArgumentError(f"dtype is {dtype}; legal: {', '.join(FORMATS)}{nearest}")
    return formats.get(name)


def _scale(scale: ArrayLike) -> Array:
    step = scale_array(scale)
    if step.dtype not in REAL_TYPES:
        raise ArgumentError(f"scale has type {step.dtype}; legal: {', '.join(map(str, REAL_TYPES))}")
    check_scale_values(step)
    return step


def _check_zero_point(zero_point: ArrayLike | None, scale_shape: tuple[int, ...]) -> None:
    if zero_point is None:
        return
    zero = np.asarray(zero_point).astype(np.float64)
    if zero.shape != scale_shape:
        raise ArgumentError(f"zero_point has shape {list(zero.shape)}, not the shape of scale, {list(scale_shape)}")
    if np.any(zero != 0):
        raise ArgumentError(f"zero_point is {zero[zero != 0].flat[0]:g}; TensorRT allows only 0")


def _granularity(
    scale_shape: tuple[int, ...], shape: tuple[int, ...], fmt: NumberFormat, axis: int | None
) -> Granularity:
    if axis is not None:
        normalize_axis(axis, len(shape))
    if scale_shape in {(), (1,)}:
        return PerTensor()
    if len(scale_shape) == 1:
        if axis is None:
            raise ArgumentError(f"axis is missing; a scale of {scale_shape[0]} elements needs an axis")
        if scale_shape[0] != shape[axis]:
            raise ArgumentError(f"scale has {scale_shape[0]} elements; axis {axis} of the input has {shape[axis]}")
        return PerAxis(axis)
    return _blocks(scale_shape, shape, fmt)


def _blocks(scale_shape: tuple[int, ...], shape: tuple[int, ...], fmt: NumberFormat) -> Blocked:
    if len(scale_shape) != len(shape):
        raise ArgumentError(f"scale has rank {len(scale_shape)}; legal: 0, 1 and {len(shape)}, the input's rank")
    rank = len(shape)
    shorter = [a for a in range(rank) if scale_shape[a] != shape[a]] or [rank - 2]
    if len(shorter) > 1 or shorter[0] < rank - 2:
        raise ArgumentError(
            f"scale has shape {list(scale_shape)} on an input of {list(shape)}; only one of the last two dimensions "
            "may be blocked"
        )
    axis = shorter[0]
    if not scale_shape[axis] or shape[axis] % scale_shape[axis]:
        raise ArgumentError(f"scale has {scale_shape[axis]} blocks on axis {axis}; they must divide {shape[axis]}")
    size = shape[axis] // scale_shape[axis]
    if fmt.name == "float4e2m1" and size != FP4_BLOCK:
        raise ArgumentError(f"block size is {size}; float4e2m1 has blocks of {FP4_BLOCK} only")
    return Blocked(axis, size)


def __dir__() -> list[str]:
    return sorted(__all__)
