"""The array API of the package: quantize and dequantize arrays as ONNX defines it, with types given by name.

An axis is the dimension that is *kept*: ``axis=0`` on a ``[64, 3, 7, 7]`` weight needs 64 scales. A scale of one
element is per-tensor. A blocked scale has the rank of the tensor, with ``axis`` divided by ``block_size``, rounded up.
Other systems define the same words differently; :mod:`qdqtool.interop` has a module for each system.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, DTypeLike, NDArray

from qdqtool.interop._arguments import (
    code_array,
    format_of,
    granularity_of,
    real_array,
    real_type,
    scale_array,
    zero_point_array,
)
from qdqtool.numerics import affine, derive
from qdqtool.numerics.derive import DEFAULT_RULE, ScaleRule
from qdqtool.numerics.dtypes import FLOAT32, FLOAT64, REAL_TYPES
from qdqtool.numerics.granularity import Granularity, PerAxis, PerTensor
from qdqtool.numerics.scheme import QuantScheme, check_scale_values

__all__ = ["dequantize", "fake_quantize", "quantize", "scale_from_range", "scale_from_tensor"]


def quantize(  # noqa: PLR0913 -- the inputs and attributes of the operator
    x: ArrayLike,
    scale: ArrayLike,
    dtype: DTypeLike,
    *,
    axis: int | None = None,
    block_size: int | None = None,
    zero_point: ArrayLike | None = None,
    saturate: bool = True,
    precision: DTypeLike | None = None,
) -> NDArray[Any]:
    """Quantize: ``saturate(round_half_even(x / scale) + zero_point)``.

    Args:
        x: Values of any shape. float32, float16, bfloat16 and int32 arrays are used exactly; Python numbers, float64
            and other integers are rounded to float32 first.
        scale: Real value of one step, finite and greater than 0. float32, float16, bfloat16 and float8e8m0 arrays are
            used exactly; Python numbers and float64 are rounded to float32 first.
        dtype: Format of the result by ONNX name (``"int8"``, ``"float8e4m3fn"``) or NumPy/ml_dtypes type.
        axis: The kept dimension (1-D scale) or the blocked dimension; negative counts from the end. Ignored for a
            scale of one element.
        block_size: Number of elements along ``axis`` that share a scale; the last block may be shorter.
        zero_point: The code of real 0 for each scale, in the scale's shape; by default 0.
        saturate: Whether fp8 values beyond the range become the largest value; otherwise infinity or NaN.
        precision: Type to which the quotient is rounded: by default the scale's type, or float32 for float8e8m0.

    Returns:
        Codes of ``x``'s shape in the format's NumPy or ml_dtypes type, one element each (not packed).

    Raises:
        ArgumentError: An argument is illegal; the message names it, its value and the legal values.
    """
    fmt = format_of(dtype)
    values, step = real_array(x, "x"), scale_array(scale)
    check_scale_values(step)
    granularity = granularity_of(step.shape, values.shape, axis, block_size)
    zero = None if zero_point is None else zero_point_array(zero_point, step.shape)
    divided = None if precision is None else real_type(precision, "precision")
    return affine.quantize(values, step, fmt, granularity, zero, precision=divided, saturate=saturate)


def dequantize(
    q: ArrayLike,
    scale: ArrayLike,
    dtype: DTypeLike = "float32",
    *,
    axis: int | None = None,
    block_size: int | None = None,
    zero_point: ArrayLike | None = None,
) -> NDArray[Any]:
    """Dequantize: ``(q - zero_point) * scale`` in float32, rounded once to the result's type.

    Args:
        q: Codes of any shape in a quantized type (:func:`quantize` makes them), or int32.
        scale: Real value of one step, as for :func:`quantize`.
        dtype: Type of the result: float32, float16 or bfloat16.
        axis: As for :func:`quantize`.
        block_size: As for :func:`quantize`.
        zero_point: As for :func:`quantize`.

    Returns:
        Values of ``q``'s shape.

    Raises:
        ArgumentError: An argument is illegal; the message names it, its value and the legal values.
    """
    codes, step = code_array(q), scale_array(scale)
    granularity = granularity_of(step.shape, codes.shape, axis, block_size)
    zero = None if zero_point is None else zero_point_array(zero_point, step.shape)
    return affine.dequantize(codes, step, granularity, zero, output_dtype=real_type(dtype, "dtype"))


def fake_quantize(
    x: ArrayLike,
    scale: ArrayLike,
    dtype: DTypeLike,
    *,
    axis: int | None = None,
    block_size: int | None = None,
    zero_point: ArrayLike | None = None,
) -> NDArray[Any]:
    """Quantize and dequantize again: return the values that a model with a Q/DQ pair computes with.

    Args:
        x: As for :func:`quantize`.
        scale: As for :func:`quantize`.
        dtype: Format of the codes in between.
        axis: As for :func:`quantize`.
        block_size: As for :func:`quantize`.
        zero_point: As for :func:`quantize`.

    Returns:
        Values of ``x``'s shape and type; float32 if ``x`` is not a float32, float16 or bfloat16 array.

    Raises:
        ArgumentError: An argument is illegal; the message names it, its value and the legal values.
    """
    values = real_array(x, "x")
    codes = quantize(values, scale, dtype, axis=axis, block_size=block_size, zero_point=zero_point)
    output = values.dtype if values.dtype in REAL_TYPES else FLOAT32
    return dequantize(codes, scale, output, axis=axis, block_size=block_size, zero_point=zero_point)


def scale_from_range(
    low: ArrayLike, high: ArrayLike, dtype: DTypeLike, *, symmetric: bool = True, rule: ScaleRule = DEFAULT_RULE
) -> tuple[NDArray[Any], NDArray[Any] | None]:
    """Return scales (and zero points) that cover real values from ``low`` to ``high``.

    Args:
        low: Smallest values: a number, or an array with one number for each scale.
        high: Largest values, in the same shape.
        dtype: Format of the codes, as for :func:`quantize`.
        symmetric: Whether the zero point is 0 and is left out.
        rule: Storage type, narrow range, divisor and rounding to powers of two.

    Returns:
        The scale, rounded to ``rule.dtype``, and the zero point, or None for symmetric scales.

    Raises:
        ArgumentError: A range is not finite, ends before it begins, or does not fit the format.
    """
    bottom, top = np.broadcast_arrays(np.asarray(low, FLOAT64), np.asarray(high, FLOAT64))
    scheme = QuantScheme(format_of(dtype), PerTensor(), symmetric)
    params = derive.scale_from_range(bottom, top, scheme, rule)
    return params.scale, params.zero_point


def scale_from_tensor(  # noqa: PLR0913 -- the granularity is spelled as in quantize
    x: ArrayLike,
    dtype: DTypeLike,
    *,
    axis: int | None = None,
    block_size: int | None = None,
    symmetric: bool = True,
    search: bool = False,
    rule: ScaleRule = DEFAULT_RULE,
) -> tuple[NDArray[Any], NDArray[Any] | None]:
    """Return scales (and zero points) for the finite values of ``x``.

    Args:
        x: Values of any shape.
        dtype: Format of the codes, as for :func:`quantize`.
        axis: The kept dimension, or the blocked dimension; None for a single scale.
        block_size: Number of elements along ``axis`` that share a scale.
        symmetric: Whether the zero point is 0 and is left out.
        search: Whether to search the scales with the least squared error; otherwise scales cover every value.
        rule: Storage type, narrow range, divisor and rounding to powers of two.

    Returns:
        The scale, rounded to ``rule.dtype``, and the zero point, or None for symmetric scales. Both fit
        :func:`quantize`.

    Raises:
        ArgumentError: An argument is illegal, or the format cannot hold the values.
    """
    values = real_array(x, "x")
    granularity: Granularity = PerTensor() if axis is None else PerAxis(axis)
    if block_size:
        granularity = granularity_of((), values.shape, axis, block_size)
    scheme = QuantScheme(format_of(dtype), granularity, symmetric)
    params = (derive.scale_by_mse if search else derive.scale_from_tensor)(values, scheme, rule)
    return params.scale, params.zero_point


def __dir__() -> list[str]:
    return sorted(__all__)
