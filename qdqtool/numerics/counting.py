"""Count magnitudes into the bins of a histogram, in NumPy or, for large samples, in compiled code.

Both give the same counts. NumPy counts more than 1 GB of float32 per second and core, compiled code about 5 GB; but
importing numba takes half a second and 60 MB. The size of one sample decides which code is used, not the number of
samples, because memory must not depend on that number.
"""

import functools
import importlib
from typing import Any

import numpy as np
import numpy.typing as npt

from qdqtool.numerics.dtypes import FLOAT32, FLOAT64, Array

WORTH_IT = 1 << 23
"""Bytes of a sample from which compiled code is used: it then saves at least about 5 ms per sample."""
COMPILED_FROM = 1 << 12
"""Smallest number of elements of an array that the compiled kernel counts."""
_KERNEL = "qdqtool.numerics.compiled.count_rows"
_PIECE = 1 << 17
# 2**127 is the largest power of two in float32: beyond it the factor of the kernel would be infinite.
_LARGEST_POWER = 127

Table = npt.NDArray[np.int64]
"""Counts, shape [BINS + 1]: the number of zeros, then the count of each bin."""


def new_table() -> Table:
    """Return a table of zeros."""
    return np.zeros(BINS + 1, np.int64)


class Counter:
    """Counts magnitudes."""

    def __init__(self) -> None:
        self._compiled = False

    def expect(self, nbytes: int) -> None:
        """Use compiled code from now on if a sample has at least :data:`WORTH_IT` bytes."""
        if nbytes >= WORTH_IT:
            self._compiled = available()

    def count(self, x: Array, exponent: int, table: Table) -> None:
        """Count values in a table: an exact zero at index 0, any other value at ``1 + floor(|x| / 2**exponent)``.

        Args:
            x: Finite floats of any shape, with magnitudes below ``BINS * 2**exponent``.
            exponent: The width of a bin is ``2**exponent``.
            table: The table to add to.
        """
        values = np.ascontiguousarray(x).reshape(-1)
        if values.dtype not in {FLOAT32, FLOAT64}:
            # float16 and bfloat16 are exact in float32.
            values = values.astype(FLOAT32)
        fits = values.dtype == FLOAT32 and values.size >= COMPILED_FROM and abs(exponent) <= _LARGEST_POWER
        if fits and self._compiled:
            _kernel().count(values, np.float32(2.0**-exponent), table)
        else:
            count_in_numpy(values, exponent, table)


def count_in_numpy(values: Array, exponent: int, table: Table) -> None:
    """Do what :meth:`Counter.count` does, for float32 or float64 of shape [n]. Exact: only exponents change."""
    for start in range(0, values.size, _PIECE):
        sizes = np.abs(values[start : start + _PIECE])
        bins = _scaled(sizes, -exponent).astype(np.int64)
        bins += sizes > 0
        table += np.bincount(bins, minlength=BINS + 1)


def _scaled(sizes: Array, power: int) -> Array:
    """Return ``sizes * 2**power``. Underflow does not matter: all products below 1 go into the same bin."""
    largest = np.finfo(sizes.dtype).maxexp - 1
    # A product is faster than ldexp, and as exact where the factor fits the type.
    factor = sizes.dtype.type(2.0**power) if abs(power) <= largest else None
    return np.asarray(np.ldexp(sizes, power) if factor is None else sizes * factor)


@functools.cache
def available() -> bool:
    """Whether numba can be imported. It may be missing, or refuse the installed NumPy."""
    try:
        _kernel()
    except ImportError:
        return False
    return True


def _kernel() -> Any:
    return importlib.import_module(_KERNEL)


BINS = 1 << 14
"""Number of bins of a histogram. At least half of them lie below the largest magnitude."""
