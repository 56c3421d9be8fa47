"""Check and convert the arguments that all systems share: real inputs, codes, scales, zero points and types."""

from collections.abc import Iterable, Mapping
from typing import Any

import ml_dtypes
import numpy as np
from numpy.typing import ArrayLike, DTypeLike

from qdqtool.errors import ArgumentError
from qdqtool.numerics import formats
from qdqtool.numerics.dtypes import FLOAT32, FLOAT64, REAL_TYPES, SCALE_TYPES, Array
from qdqtool.numerics.granularity import Blocked, Granularity, PerAxis, PerTensor
from qdqtool.numerics.number_format import NumberFormat
from qdqtool.numerics.rounding import round_once
from qdqtool.numerics.scheme import check_scale_values
from qdqtool.registry import suggestion


def format_of(dtype: DTypeLike, argument: str = "dtype") -> NumberFormat:
    """Return the quantized format with an ONNX name or a NumPy/ml_dtypes type.

    Raises:
        ArgumentError: No format has that name or type; the message lists the legal names.
    """
    if isinstance(dtype, str) and dtype in formats.names():
        return formats.get(dtype)
    found = None if isinstance(dtype, str) else formats.by_dtype(_numpy_type(dtype, argument))
    if found is None:
        near = suggestion(str(dtype), formats.names())
        raise ArgumentError(f"{argument} is {dtype}; legal: {', '.join(formats.names())}{near}")
    return found


def real_type(dtype: DTypeLike, argument: str) -> np.dtype[Any]:
    """Return float32, float16 or bfloat16 for its name or type.

    Raises:
        ArgumentError: ``dtype`` is another type.
    """
    chosen = np.dtype(ml_dtypes.bfloat16) if dtype == "bfloat16" else _numpy_type(dtype, argument)
    if chosen not in REAL_TYPES:
        raise ArgumentError(f"{argument} is {dtype}; legal: {', '.join(map(str, REAL_TYPES))}")
    return chosen


def real_array(x: ArrayLike, argument: str) -> Array:
    """Return ``x`` as an array of float32, float16, bfloat16 or int32; other real types are rounded to float32.

    Raises:
        ArgumentError: ``x`` does not hold real numbers.
    """
    array = np.asarray(x)
    if array.dtype in REAL_TYPES or (array.dtype == np.int32 and isinstance(x, np.ndarray)):
        return array
    if array.dtype.kind not in "biuf" or array.dtype.itemsize > FLOAT64.itemsize:
        raise ArgumentError(f"{argument} has type {array.dtype}; legal: float32, float16, bfloat16, int32, float64")
    with np.errstate(over="ignore"):
        return array.astype(FLOAT32)


def scale_array(scale: ArrayLike) -> Array:
    """Return ``scale`` as an array of a type that ONNX allows for scales; other real types are rounded to float32.

    Raises:
        ArgumentError: ``scale`` does not hold real numbers.
    """
    array = np.asarray(scale)
    if array.dtype in SCALE_TYPES:
        return array
    return real_array(array.astype(FLOAT64) if array.dtype.kind in "iu" else array, "scale")


def code_array(q: ArrayLike) -> Array:
    """Return ``q`` as an array of codes.

    Raises:
        ArgumentError: The type of ``q`` is no quantized type.
    """
    readable = (name for name in formats.names() if formats.get(name).first_opset.dequantize is not None)
    return codes_of(q, "q", readable)[0]


def zero_point_array(zero_point: ArrayLike, scale_shape: tuple[int, ...]) -> Array:
    """Return ``zero_point`` as an array in the scale's shape; shapes ``[]`` and ``[1]`` count as the same.

    Raises:
        ArgumentError: ``zero_point`` has another shape, or is fractional.
    """
    array = np.asarray(zero_point)
    if {array.shape, scale_shape} <= {(), (1,)}:
        array = array.reshape(scale_shape)
    if array.shape != scale_shape:
        raise ArgumentError(f"zero_point has shape {list(array.shape)}, not the shape of scale, {list(scale_shape)}")
    if array.dtype.kind == "f" and not np.array_equal(array, np.rint(array)):
        raise ArgumentError("zero_point is fractional; it must be a whole number of steps")
    return array


def granularity_of(
    scale_shape: tuple[int, ...], shape: tuple[int, ...], axis: int | None, block_size: int | None
) -> Granularity:
    """Return the granularity of a scale of ``scale_shape`` on a tensor of ``shape``.

    Raises:
        ArgumentError: ``axis`` or ``block_size`` is missing or illegal for that scale.
    """
    if block_size:
        if axis is None:
            raise ArgumentError("axis is missing; block_size needs the axis along which the blocks lie")
        return Blocked(axis, block_size)
    if scale_shape in {(), (1,)}:
        return PerTensor()
    if len(scale_shape) == 1:
        if axis is None:
            raise ArgumentError(f"axis is missing; a scale of {scale_shape[0]} elements needs an axis")
        return PerAxis(axis)
    raise ArgumentError(
        f"block_size is missing; a scale of shape {list(scale_shape)} on a tensor of shape {list(shape)} is blocked"
    )


def format_named(dtype: DTypeLike, ours: Mapping[str, str]) -> NumberFormat:
    """Return the format that a system calls ``dtype``; ONNX names and NumPy/ml_dtypes types are accepted too.

    Args:
        dtype: The name or type.
        ours: The system's names, each with the name in qdqtool.

    Raises:
        ArgumentError: The system has no such format.
    """
    name = str(dtype) if isinstance(dtype, str) else str(formats.by_dtype(np.dtype(dtype)))
    name = ours.get(name, name)
    if name not in ours.values():
        raise ArgumentError(f"dtype is {dtype}; legal: {', '.join(ours)}")
    return formats.get(name)


def _numpy_type(dtype: DTypeLike, argument: str) -> np.dtype[Any]:
    try:
        return np.dtype(dtype)
    except TypeError:
        raise ArgumentError(f"{argument} is {dtype!r}; it is neither an ONNX type name nor a NumPy type") from None


def real_side(x: ArrayLike, argument: str) -> Array:
    """Return ``x`` as float32, float16 or bfloat16; other real types are rounded to float32."""
    values = real_array(x, argument)
    return values if values.dtype in REAL_TYPES else values.astype(FLOAT32)


def scale_like(scale: ArrayLike, dtype: np.dtype[Any]) -> Array:
    """Return a positive scale of type ``dtype``: numbers, lists and float64 are rounded, other types are refused.

    Raises:
        ArgumentError: ``scale`` has another type, or is not finite and positive.
    """
    array = np.asarray(scale)
    if array.dtype.kind in "biu" or array.dtype == FLOAT64:
        array = round_once(array.astype(FLOAT64), dtype)
    if array.dtype != dtype:
        raise ArgumentError(f"scale has type {array.dtype}, not the type of the real values, {dtype}")
    check_scale_values(array)
    return array


def codes_of(q: ArrayLike, argument: str, legal: Iterable[str]) -> tuple[Array, NumberFormat]:
    """Return ``q`` as an array, and its format, which must be one of ``legal``.

    Raises:
        ArgumentError: ``q`` has another type.
    """
    codes = np.asarray(q)
    fmt = formats.by_dtype(codes.dtype)
    names = tuple(legal)
    if fmt is None or fmt.name not in names:
        raise ArgumentError(f"{argument} has type {codes.dtype}; legal: {', '.join(names)}")
    return codes, fmt
