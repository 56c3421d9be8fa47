"""Measure distances on the grid of a number format in codes, and the roundoff of float types."""

import ml_dtypes
import numpy as np

from qdqtool.numerics.dtypes import FLOAT64, Array
from qdqtool.numerics.grid import representable
from qdqtool.numerics.number_format import NumberFormat


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
