"""The values that a number format can hold, and the steps between them."""

import functools

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
