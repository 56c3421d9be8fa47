"""ONNX's QuantizeLinear and DequantizeLinear on NumPy arrays, as each opset defines them.

The operators are computed as specified: division by a zero scale follows IEEE 754, a negative scale is a negative step.
A feature that the opset does not have is refused; the message names the opset that introduced it. Source: the texts and
changelogs of the operators.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, DTypeLike, NDArray

from qdqtool.errors import ArgumentError
from qdqtool.interop._arguments import code_array, format_of, real_array, real_type, scale_array, zero_point_array
from qdqtool.numerics import affine, formats
from qdqtool.numerics.dtypes import FLOAT8E8M0, FLOAT32, REAL_TYPES, Array
from qdqtool.numerics.granularity import Blocked, Granularity, PerAxis, PerTensor, normalize_axis
from qdqtool.numerics.number_format import NumberFormat

__all__ = ["dequantize_linear", "quantize_linear"]

LATEST_OPSET = 28
TENSOR_TYPES: dict[int, np.dtype[Any]] = dict(zip((1, 10, 16), REAL_TYPES, strict=True))
"""``TensorProto.DataType`` of float32, float16 and bfloat16."""


@dataclass(frozen=True, slots=True)
class _Rules:
    """Checks what one opset allows."""

    opset: int

    def require(self, what: str, first: int) -> None:
        """Raise ArgumentError unless the opset has ``what``, which opset ``first`` introduced."""
        if self.opset < first:
            raise ArgumentError(f"{what} needs opset {first}; opset is {self.opset}")

    def real(self, dtype: np.dtype[Any], argument: str) -> None:
        """Raise ArgumentError unless the opset accepts ``dtype`` as a real type or scale type."""
        if dtype != FLOAT32:
            self.require(f"{argument} of type {dtype}", 24 if dtype == FLOAT8E8M0 else 19)

    def format(self, fmt: NumberFormat, first: int | None) -> None:
        """Raise ArgumentError unless the opset is at least ``first``; with None, no opset accepts ``fmt``."""
        if first is None:
            raise ArgumentError(f"{fmt} is not a legal quantized type here")
        self.require(str(fmt), first)

    def same_types(self, x: np.dtype[Any], scale: np.dtype[Any]) -> None:
        """Raise ArgumentError if the types of ``x`` and the scale differ and the opset does not allow it."""
        if x not in (scale, np.int32):
            self.require(f"x of type {x} with y_scale of type {scale}", 23)


def quantize_linear(  # noqa: PLR0913 -- the operator's inputs and attributes
    x: ArrayLike,
    scale: ArrayLike,
    zero_point: ArrayLike | None = None,
    *,
    axis: int = 1,
    block_size: int = 0,
    output_dtype: DTypeLike | int | None = None,
    saturate: int = 1,
    precision: DTypeLike | int | None = None,
    opset: int = LATEST_OPSET,
) -> NDArray[Any]:
    """Compute QuantizeLinear: ``saturate(round(x / scale) + zero_point)``.

    Args:
        x: float32, float16, bfloat16 or int32 values; numbers, lists and float64 become float32.
        scale: Scalar, 1-D of ``x.shape[axis]`` elements, or blocked with ``block_size``.
        zero_point: The code of real 0 for each scale, in the scale's shape; the result has its type.
        axis: The kept or blocked dimension.
        block_size: Elements in a block; 0 for no blocks.
        output_dtype: Type of the result if there is no zero point, as name, type or ``TensorProto`` value; by default
            uint8.
        saturate: With 0, fp8 values beyond the range become NaN or infinity.
        precision: Type to which the quotient is rounded; by default the scale's type.
        opset: Version of the operator's text, 10 to 28.

    Returns:
        Codes of ``x``'s shape.

    Raises:
        ArgumentError: An argument is illegal, or the opset does not have it.
    """
    rules = _rules(opset)
    values, step = real_array(x, "x"), scale_array(scale)
    rules.real(values.dtype if values.dtype != np.int32 else FLOAT32, "x")
    rules.real(step.dtype, "y_scale")
    rules.same_types(values.dtype, step.dtype)
    zero, fmt = _result_format(zero_point, output_dtype, step.shape, rules)
    if not saturate:
        rules.require("saturate", 19)
    divided = None
    if precision:
        rules.require("precision", 23)
        divided = _real(precision, "precision")
    granularity = _granularity(step.shape, values.shape, axis, block_size, rules)
    return affine.quantize(values, step, fmt, granularity, zero, precision=divided, saturate=bool(saturate))


def dequantize_linear(  # noqa: PLR0913 -- the operator's inputs and attributes
    x: ArrayLike,
    scale: ArrayLike,
    zero_point: ArrayLike | None = None,
    *,
    axis: int = 1,
    block_size: int = 0,
    output_dtype: DTypeLike | int | None = None,
    opset: int = LATEST_OPSET,
) -> NDArray[Any]:
    """Compute DequantizeLinear: ``(x - zero_point) * scale``.

    Args:
        x: Codes in a quantized type or int32.
        scale: As for :func:`quantize_linear`.
        zero_point: The code of real 0 for each scale, in the scale's shape and ``x``'s type.
        axis: The kept or blocked dimension.
        block_size: Elements in a block; 0 for no blocks.
        output_dtype: Type of the result, as name, type or ``TensorProto`` value; by default the scale's type.
        opset: Version of the operator's text, 10 to 28.

    Returns:
        Values of ``x``'s shape.

    Raises:
        ArgumentError: An argument is illegal, or the opset does not have it.
    """
    rules = _rules(opset)
    codes, step = code_array(x), scale_array(scale)
    fmt = format_of(codes.dtype)
    rules.format(fmt, fmt.first_opset.dequantize)
    rules.real(step.dtype, "x_scale")
    zero = _zero_point(zero_point, fmt, step.shape)
    output = step.dtype
    if output_dtype:
        rules.require("output_dtype", 23)
        output = _real(output_dtype, "output_dtype")
    elif output == FLOAT8E8M0:
        raise ArgumentError("output_dtype is missing; a scale of type float8_e8m0fnu needs it")
    granularity = _granularity(step.shape, codes.shape, axis, block_size, rules)
    return affine.dequantize(codes, step, granularity, zero, output_dtype=output)


def _rules(opset: int) -> _Rules:
    if not 10 <= opset <= LATEST_OPSET:
        raise ArgumentError(f"opset is {opset}; legal: 10 to {LATEST_OPSET}")
    return _Rules(opset)


def _real(dtype: DTypeLike | int, argument: str) -> np.dtype[Any]:
    if isinstance(dtype, int):
        if dtype not in TENSOR_TYPES:
            raise ArgumentError(f"{argument} is {dtype}; legal: {', '.join(map(str, TENSOR_TYPES))}")
        return TENSOR_TYPES[dtype]
    return real_type(dtype, argument)


def _result_format(
    zero_point: ArrayLike | None, output_dtype: DTypeLike | int | None, shape: tuple[int, ...], rules: _Rules
) -> tuple[Array | None, NumberFormat]:
    """Return the zero point, and the format of the result: the type of the zero point, ``output_dtype`` or uint8."""
    asked = None
    if output_dtype:
        rules.require("output_dtype", 21)
        asked = formats.by_onnx_type(output_dtype) if isinstance(output_dtype, int) else format_of(output_dtype)
        if asked is None:
            raise ArgumentError(f"output_dtype is {output_dtype}; it is not a quantized type")
    if zero_point is None:
        fmt = asked or formats.get("uint8")
        rules.format(fmt, fmt.first_opset.quantize)
        return None, fmt
    fmt = format_of(np.asarray(zero_point).dtype, "the type of y_zero_point")
    if asked not in {None, fmt}:
        raise ArgumentError(f"output_dtype is {asked} and y_zero_point is {fmt}; they must be the same")
    rules.format(fmt, fmt.first_opset.quantize)
    return zero_point_array(zero_point, shape), fmt


def _zero_point(zero_point: ArrayLike | None, fmt: NumberFormat, shape: tuple[int, ...]) -> Array | None:
    if zero_point is None:
        return None
    zero = zero_point_array(zero_point, shape)
    if zero.dtype != fmt.dtype:
        raise ArgumentError(f"x_zero_point has type {zero.dtype}, not the type of x, {fmt}")
    if fmt.zero_point == "zero" and np.any(zero.astype(np.float32) != 0):
        raise ArgumentError(f"x_zero_point is not 0; {fmt} allows only 0")
    return zero


def _granularity(
    scale_shape: tuple[int, ...], shape: tuple[int, ...], axis: int, block_size: int, rules: _Rules
) -> Granularity:
    if block_size:
        rules.require("block_size", 21)
        return _blocked(scale_shape, shape, axis, block_size)
    if scale_shape in {(), (1,)}:
        return PerTensor()
    rules.require(f"a scale of shape {list(scale_shape)}", 13)
    if len(scale_shape) != 1:
        raise ArgumentError(f"block_size is 0; a scale of shape {list(scale_shape)} is blocked and needs it")
    return PerAxis(axis)


def _blocked(scale_shape: tuple[int, ...], shape: tuple[int, ...], axis: int, block_size: int) -> Blocked:
    """Return blocks as ONNX defines them: ``block_size`` in ``[ceil(Di / Si), ceil(Di / (Si - 1)) - 1]``."""
    where = normalize_axis(axis, len(shape))
    if len(scale_shape) == len(shape) and block_size > 0 and scale_shape[where]:
        length, blocks = shape[where], scale_shape[where]
        least = -(-length // blocks)
        most = -(-length // (blocks - 1)) - 1 if blocks > 1 else None
        if block_size < least or (most is not None and block_size > most):
            legal = f"at least {least}" if most is None else f"{least} to {most}"
            raise ArgumentError(f"block_size is {block_size}; {blocks} blocks on an axis of {length} need {legal}")
    return Blocked(axis, block_size)


def __dir__() -> list[str]:
    return sorted(__all__)
