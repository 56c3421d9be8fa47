"""Counting magnitudes into the bins of a histogram: in NumPy, or compiled where there is much to count at a time.

Both ways give the same counts, bit for bit. NumPy counts more than 1 GB of float32 a second and core, compiled code
about 5; but numba takes half a second and 60 MB. Which way is taken depends on the size of a sample and not on how many
there are, so that memory does not either.
"""

import functools
import importlib
from typing import Any

import numpy as np
import numpy.typing as npt

from qdqtool.numerics.dtypes import FLOAT32, FLOAT64, Array

WORTH_IT = 1 << 23
"""Bytes of one sample from which the compiled kernel is fetched: it saves some 5 ms for each."""
COMPILED_FROM = 1 << 12
"""Elements from which the compiled kernel is called."""
_KERNEL = "qdqtool.numerics.compiled.count_rows"
_PIECE = 1 << 17
_LARGEST_POWER = 127

Table = npt.NDArray[np.int64]
"""Counts, shape [BINS + 1]: zeros first, then one for each bin."""


def new_table() -> Table:
    """A table without counts."""
    return np.zeros(BINS + 1, np.int64)


class Counter:
    """Counts magnitudes."""

    def __init__(self) -> None:
        self._compiled = False

    def expect(self, nbytes: int) -> None:
        """Be told how many bytes of values one sample has: compiled code is used from :data:`WORTH_IT` on."""
        if not self._compiled and nbytes >= WORTH_IT:
            self._compiled = available()

    def count(self, x: Array, exponent: int, table: Table) -> None:
        """Add values to a table: an exact zero at 0, any other at ``1 + floor(|x| / 2**exponent)``.

        Args:
            x: Finite floats of any shape; none is as large as ``BINS * 2**exponent``.
            exponent: The width of a bin is ``2**exponent``.
            table: What is added to.
        """
        values = np.ascontiguousarray(x).reshape(-1)
        if values.dtype not in {FLOAT32, FLOAT64}:
            values = values.astype(FLOAT32)  # float16 and bfloat16, exactly
        fits = values.dtype == FLOAT32 and values.size >= COMPILED_FROM and abs(exponent) <= _LARGEST_POWER
        if fits and self._compiled:
            _kernel().count(values, np.float32(2.0**-exponent), table)
        else:
            count_in_numpy(values, exponent, table)


def count_in_numpy(values: Array, exponent: int, table: Table) -> None:
    """What :meth:`Counter.count` says, for float32 or float64 of shape [n]; exact, since only exponents change."""
    for start in range(0, values.size, _PIECE):
        sizes = np.abs(values[start : start + _PIECE])
        bins = _scaled(sizes, -exponent).astype(np.int64)
        bins += sizes > 0
        table += np.bincount(bins, minlength=BINS + 1)


def _scaled(sizes: Array, power: int) -> Array:
    """``sizes * 2**power``; where that is too small for the type it is less than 1 and any such value will do."""
    largest = np.finfo(sizes.dtype).maxexp - 1
    factor = sizes.dtype.type(2.0**power) if abs(power) <= largest else None
    return np.asarray(np.ldexp(sizes, power) if factor is None else sizes * factor)


@functools.cache
def available() -> bool:
    """Whether numba can be imported: it may be absent, or refuse the NumPy that is installed."""
    try:
        _kernel()
    except ImportError:
        return False
    return True


def _kernel() -> Any:
    return importlib.import_module(_KERNEL)


BINS = 1 << 14
"""Bins of a histogram. At least half of them lie below the largest magnitude."""
