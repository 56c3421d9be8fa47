"""``nvtripy.quantize`` and ``nvtripy.dequantize`` on NumPy arrays.

``dim`` is the dimension that is *kept*: it has one scale for each index. Without ``dim`` the scale is a scalar. For
int4, it may also be 2-D and divide the first of two dimensions into blocks. There is no zero point. A scale has the
type of the real values; numbers and nested lists are converted. Sizes are checked as in tripy's compiler.

Source: the reference pages of the two functions. They have no formula. Both functions become TensorRT layers, so
rounding is to nearest, ties to even. bfloat16 is accepted as in tripy's code; the page of ``dequantize`` omits it.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, DTypeLike, NDArray

from qdqtool.errors import ArgumentError
from qdqtool.interop._arguments import codes_of, format_named, real_side, real_type, scale_like
from qdqtool.interop._graph import Dequantize, GraphPiece, Quantize
from qdqtool.numerics.granularity import Blocked, Granularity, PerAxis, PerTensor, normalize_axis
from qdqtool.numerics.number_format import NumberFormat

__all__ = ["dequantize", "dequantize_graph", "quantize", "quantize_graph"]

FORMATS = {"int8": "int8", "int4": "int4", "float8": "float8e4m3fn"}
"""tripy's names of the quantized types, and the names in qdqtool."""


def quantize(input: ArrayLike, scale: ArrayLike, dtype: DTypeLike, dim: int | None = None) -> NDArray[Any]:  # noqa: A002
    """Quantize: ``clamp(round(input / scale))``.

    Args:
        input: float32, float16 or bfloat16 values; numbers, lists and float64 become float32. Arrays of integers or
            booleans are refused, as in tripy.
        scale: A number or scalar; with ``dim``, a 1-D array of ``input.shape[dim]`` elements; for int4 blocks, a 2-D
            array. An array must have the input's type.
        dtype: int8, int4 or float8 (also spelled ``float8e4m3fn``).
        dim: The kept dimension.

    Returns:
        Codes of the input's shape.

    Raises:
        ArgumentError: An argument is illegal; the message names it, its value and the legal values.
    """
    return _quantize(input, scale, dtype, dim).run()


def dequantize(input: ArrayLike, scale: ArrayLike, dtype: DTypeLike, dim: int | None = None) -> NDArray[Any]:  # noqa: A002
    """Dequantize: ``input * scale``.

    Args:
        input: int8, int4 or float8e4m3fn codes.
        scale: As for :func:`quantize`; an array must have type ``dtype``.
        dtype: float32, float16 or bfloat16.
        dim: The kept dimension.

    Returns:
        Values of the input's shape and type ``dtype``.

    Raises:
        ArgumentError: An argument is illegal; the message names it, its value and the legal values.
    """
    return _dequantize(input, scale, dtype, dim).run()


def quantize_graph(input: ArrayLike, scale: ArrayLike, dtype: DTypeLike, dim: int | None = None) -> GraphPiece:  # noqa: A002
    """Return the ONNX nodes of the same :func:`quantize` call; only the shape and type of ``input`` are used."""
    return _quantize(input, scale, dtype, dim).graph()


def dequantize_graph(
    input: ArrayLike,  # noqa: A002
    scale: ArrayLike,
    dtype: DTypeLike,
    dim: int | None = None,
) -> GraphPiece:
    """Return the ONNX nodes of the same :func:`dequantize` call; only the shape and type of ``input`` are used."""
    return _dequantize(input, scale, dtype, dim).graph()


def _quantize(x: ArrayLike, scale: ArrayLike, dtype: DTypeLike, dim: int | None) -> Quantize:
    given = getattr(x, "dtype", None)
    if given is not None and np.dtype(given).kind in "biu":
        raise ArgumentError(f"input has type {given}; legal: float32, float16, bfloat16")
    values, fmt = real_side(x, "input"), format_named(dtype, FORMATS)
    step = scale_like(scale, values.dtype)
    return Quantize(values, step, fmt, _granularity(step.shape, values.shape, fmt, dim))


def _dequantize(q: ArrayLike, scale: ArrayLike, dtype: DTypeLike, dim: int | None) -> Dequantize:
    output = real_type(dtype, "dtype")
    codes, fmt = codes_of(q, "input", FORMATS.values())
    step = scale_like(scale, output)
    return Dequantize(codes, step, _granularity(step.shape, codes.shape, fmt, dim), output, fmt)


def _granularity(
    scale_shape: tuple[int, ...], shape: tuple[int, ...], fmt: NumberFormat, dim: int | None
) -> Granularity:
    if dim is not None:
        if len(scale_shape) != 1:
            raise ArgumentError(f"scale has rank {len(scale_shape)}; with dim it must have rank 1")
        kept = normalize_axis(dim, len(shape))
        if scale_shape[0] != shape[kept]:
            raise ArgumentError(f"scale has {scale_shape[0]} elements; dimension {dim} of the input has {shape[kept]}")
        return PerAxis(kept)
    if not scale_shape:
        return PerTensor()
    if len(scale_shape) != 2:
        raise ArgumentError(
            f"scale has rank {len(scale_shape)}; without dim it must be a scalar, or 2-D for int4 blocks"
        )
    return _blocks(scale_shape, shape, fmt)


def _blocks(scale_shape: tuple[int, ...], shape: tuple[int, ...], fmt: NumberFormat) -> Blocked:
    if fmt.name != "int4":
        raise ArgumentError(f"dtype is {fmt}; a 2-D scale (blocks) is for int4 only")
    if len(shape) != 2:
        raise ArgumentError(f"input has rank {len(shape)}; a 2-D scale (blocks) is for inputs of rank 2 only")
    if scale_shape[1] != shape[1]:
        raise ArgumentError(f"scale has shape {list(scale_shape)}; its second dimension must be {shape[1]}")
    if not scale_shape[0] or shape[0] % scale_shape[0]:
        raise ArgumentError(f"scale has shape {list(scale_shape)}; its first dimension must divide {shape[0]}")
    return Blocked(0, max(1, shape[0] // scale_shape[0]))


def __dir__() -> list[str]:
    return sorted(__all__)
