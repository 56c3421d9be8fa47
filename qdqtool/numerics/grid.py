"""The values that a number format can hold, and the steps between them."""

import functools

import ml_dtypes
import numpy as np

from qdqtool.numerics.dtypes import FLOAT64, Array
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
    """Return the values of :func:`representable` from 0 up: the grid of magnitudes in a symmetric scheme."""
    values = representable(fmt)
    return values[values >= 0]


def step_widths(quotient: Array, fmt: NumberFormat) -> Array:
    """Return the width of a quantization step at each value, in multiples of the scale.

    The steps of an integer format are one scale wide. Those of a floating-point format grow with the value.

    Args:
        quotient: Real values divided by their scale, float64.
        fmt: The quantized format.

    Returns:
        1 for integer formats; else the gap of the format's grid around the value, of ``quotient``'s shape. Beyond the
        range it is the last gap.
    """
    if fmt.kind == "integer":
        return np.ones((), FLOAT64)
    grid = representable(fmt)
    above = np.clip(np.searchsorted(grid, quotient), 1, len(grid) - 1)
    return np.asarray(grid[above] - grid[above - 1])


def code_steps(left: Array, right: Array, fmt: NumberFormat) -> Array:
    """Return the number of representable values between codes, float64; infinite where only one is NaN."""
    if fmt.kind == "integer":
        return np.abs(left.astype(np.int64) - right.astype(np.int64)).astype(FLOAT64)
    grid = representable(fmt)
    a, b = left.astype(FLOAT64), right.astype(FLOAT64)
    apart = np.abs(np.searchsorted(grid, a) - np.searchsorted(grid, b)).astype(FLOAT64)
    return np.where(np.isnan(a) != np.isnan(b), np.inf, apart)


def unit_roundoff(dtype: np.dtype[np.generic]) -> float:
    """Return the largest relative error of a rounding to a float type: half its epsilon, of float32 for wider types."""
    if dtype.itemsize != 2:
        return 2.0**-24
    return float(ml_dtypes.finfo(dtype).eps) / 2  # type: ignore[no-untyped-call]
