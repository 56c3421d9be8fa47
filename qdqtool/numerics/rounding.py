"""The grid of a number format: its steps, and how quotients are rounded half to even onto it and saturated.

Values are clipped before any cast, because casts differ by type: NumPy's float32 to int8 wraps 300 to 44, ml_dtypes'
int4 wraps, its fp8 types give NaN or infinity, its fp4 and fp6 types saturate.

Dividing in a wider type and rounding again gives the same result only if the wider type is wide enough. It must resolve
how near a quotient can come to a rounding boundary of the result. An operand of ``a`` bits divided by an operand of
``b`` bits hits a boundary of a ``p``-bit type exactly, or misses it by at least a relative ``2**-(b + p + 1)``:

- float16 / float16 to float16: 11 + 11 + 1 bits < 24, so float32 is wide enough; the same holds for bfloat16;
- up to 32 bits (int32, float32) / float32 to float32: 24 + 24 + 1 bits < 53, so float64 is wide enough.

The rule is that of S. A. Figueroa, "When is double rounding innocuous?" (1995), applied to division.
"""

import functools
from dataclasses import dataclass
from typing import Any

import ml_dtypes
import numpy as np

from qdqtool.errors import ArgumentError
from qdqtool.numerics.dtypes import BFLOAT16, FLOAT8E8M0, FLOAT32, FLOAT64, REAL_TYPES, Array
from qdqtool.numerics.number_format import NumberFormat


@functools.cache
def representable(fmt: NumberFormat) -> Array:
    """Return all finite values of a format of at most 16 bits, ascending, float64."""
    if fmt.kind == "integer":
        return np.arange(fmt.low, fmt.high + 1, dtype=FLOAT64)
    codes = np.arange(1 << fmt.bits, dtype=np.uint8).view(fmt.dtype).astype(FLOAT64)
    return np.unique(codes[np.isfinite(codes)])


@functools.cache
def magnitudes(fmt: NumberFormat) -> Array:
    """Return the values of :func:`representable` from 0 up: all magnitudes of a symmetric scheme."""
    values = representable(fmt)
    return values[values >= 0]


def step_widths(quotient: Array, fmt: NumberFormat) -> Array:
    """Return the width of a quantization step at each value, in multiples of the scale.

    The steps of an integer format are one scale wide. The steps of a floating-point format grow with the value.

    Args:
        quotient: Real values divided by their scale, float64.
        fmt: The quantized format.

    Returns:
        1 for integer formats. Otherwise the distance of the two format values around each value, in ``quotient``'s
        shape; beyond the range, the last distance.
    """
    if fmt.kind == "integer":
        return np.ones((), FLOAT64)
    grid = representable(fmt)
    above = np.clip(np.searchsorted(grid, quotient), 1, len(grid) - 1)
    return np.asarray(grid[above] - grid[above - 1])


def code_steps(left: Array, right: Array, fmt: NumberFormat) -> Array:
    """Return the number of steps between two codes, float64; infinite if only one of them is NaN."""
    if fmt.kind == "integer":
        return np.abs(left.astype(np.int64) - right.astype(np.int64)).astype(FLOAT64)
    grid = representable(fmt)
    a, b = left.astype(FLOAT64), right.astype(FLOAT64)
    apart = np.abs(np.searchsorted(grid, a) - np.searchsorted(grid, b)).astype(FLOAT64)
    return np.where(np.isnan(a) != np.isnan(b), np.inf, apart)


def unit_roundoff(dtype: np.dtype[np.generic]) -> float:
    """Return the largest relative rounding error of a float type, half its epsilon; wider types count as float32."""
    if dtype.itemsize != 2:
        return 2.0**-24
    return float(ml_dtypes.finfo(dtype).eps) / 2  # type: ignore[no-untyped-call]


@dataclass(frozen=True, slots=True)
class Division:
    """How to divide arrays of one pair of types.

    Attributes:
        work: Type in which the operands are exact and the division is done: float32 or float64.
        precision: Type to which the quotient is rounded once.
    """

    work: np.dtype[Any]
    precision: np.dtype[Any]

    def __call__(self, x: Array, scale: Array) -> Array:
        """Return ``x / scale`` rounded to :attr:`precision`, as float32; ``scale`` has type :attr:`work`."""
        quotient = np.empty(x.shape, self.work)
        np.divide(x.astype(self.work, copy=False), scale, out=quotient)
        return round_once(quotient, self.precision).astype(FLOAT32, copy=False)


def division(x_type: np.dtype[Any], scale_type: np.dtype[Any], precision: np.dtype[Any] | None = None) -> Division:
    """Choose how to divide ``x_type`` by ``scale_type``.

    Args:
        x_type: float32, float16, bfloat16 or int32.
        scale_type: float32, float16, bfloat16 or float8e8m0.
        precision: Type of the quotient. The default is ``scale_type``, or float32 for float8e8m0 (no significand).

    Raises:
        ArgumentError: ``precision`` is not float32, float16 or bfloat16.
    """
    chosen = precision or (FLOAT32 if scale_type == FLOAT8E8M0 else scale_type)
    if chosen not in REAL_TYPES:
        raise ArgumentError(f"precision is {chosen}; legal: {', '.join(map(str, REAL_TYPES))}")
    narrow = x_type in REAL_TYPES and (chosen == FLOAT32 or x_type == scale_type == chosen)
    return Division(FLOAT32 if narrow else FLOAT64, chosen)


def round_once(values: Array, dtype: np.dtype[Any]) -> Array:
    """Round ``values`` (float32 or float64) half to even to float32, float16 or bfloat16, in one rounding.

    Values that already have this type are not copied.
    """
    # ml_dtypes 0.6 converts float64 to bfloat16 through float32 and so rounds twice: 1 + 2**-8 + 2**-40 becomes 1.
    # Rounding to odd in between makes the second rounding exact.
    if dtype == BFLOAT16 and values.dtype == FLOAT64:
        values = _round_to_odd(values)
    return np.asarray(values.astype(dtype, copy=False))


def _round_to_odd(values: Array) -> Array:
    """Round float64 to float32 so that a later rounding to at most 22 bits gives the same as a single rounding."""
    nearest = values.astype(FLOAT32)
    away = np.abs(nearest.astype(FLOAT64)) > np.abs(values)
    toward_zero = np.where(away, np.nextafter(nearest, np.float32(0)), nearest)
    inexact = (toward_zero.astype(FLOAT64) != values) & ~np.isnan(values)
    odd: Array = toward_zero.view(np.uint32) | inexact.astype(np.uint32)
    return odd.view(np.float32)


def to_integer(quotient: Array, fmt: NumberFormat, zero_point: Array | None) -> Array:
    """Return ``saturate(round(quotient) + zero_point)``.

    Float32 holds every sum up to 2**24 exactly. Beyond that, its rounding cannot bring a sum back into a range of 16
    bits.

    Args:
        quotient: float32; it is overwritten.
        fmt: An integer format of at most 16 bits.
        zero_point: float32 that broadcasts against ``quotient``, or None.

    Returns:
        Codes in ``fmt.dtype``. NaN becomes ``fmt.low``, infinities become ``fmt.low`` or ``fmt.high``.
    """
    np.rint(quotient, out=quotient)
    if zero_point is not None:
        quotient += zero_point
    # fmax ignores NaN, so NaN becomes the lowest code; minimum would keep it.
    np.fmax(quotient, np.float32(fmt.low), out=quotient)
    np.minimum(quotient, np.float32(fmt.high), out=quotient)
    if fmt.bits >= 8:
        return quotient.astype(fmt.dtype)
    # Through int8, because ml_dtypes converts float32 to int4 ten times as slowly as int8 to int4 (0.6).
    return quotient.astype(np.int8).astype(fmt.dtype)


def to_float(quotient: Array, fmt: NumberFormat, *, saturate: bool) -> Array:
    """Round ``quotient`` to a floating-point format.

    Args:
        quotient: float32; it is overwritten.
        fmt: A floating-point format of at most 8 bits.
        saturate: Whether values that round beyond the largest value become the largest value. Otherwise they become
            infinity or NaN (see ``fmt.overflow``). Formats without infinity and NaN always saturate.

    Returns:
        Codes in ``fmt.dtype``. NaN stays NaN if the format has NaN; otherwise it becomes ``fmt.low``.
    """
    if saturate or not fmt.has_nan:
        keep_nan = np.maximum if fmt.has_nan else np.fmax
        keep_nan(quotient, np.float32(fmt.low), out=quotient)
        np.minimum(quotient, np.float32(fmt.high), out=quotient)
    return quotient.astype(fmt.dtype)
