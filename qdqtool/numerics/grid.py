"""The values that a number format can hold."""

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
