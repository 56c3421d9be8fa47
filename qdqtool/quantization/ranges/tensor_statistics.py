"""The statistics of one tensor while it is counted: range, number of values and, if requested, a histogram."""

import numpy as np

from qdqtool.numerics.counting import Counter, Table, new_table
from qdqtool.numerics.dtypes import Array
from qdqtool.quantization.ranges.histogram import Histogram, exponent_for, widen
from qdqtool.quantization.ranges.types import UNSEEN, TensorRange


class TensorStatistics:
    """Counts arrays of one tensor; the result depends neither on their order nor on the grouping of values.

    Args:
        counter: Counts the histogram; None for no histogram.
    """

    def __init__(self, counter: Counter | None = None) -> None:
        self._counter = counter
        self._range = UNSEEN
        self._exponent: int | None = None
        self._table: Table | None = None

    def add(self, array: Array) -> bool:
        """Count an array and return whether all its values are finite; an array with other values is not counted."""
        seen = range_of(array)
        if not np.isfinite(seen.amax):
            return False
        self._range = self._range.merge(seen)
        if self._counter is not None and array.size:
            self._count(array, seen.amax, self._counter)
        return True

    def result(self) -> TensorRange:
        """Return the range so far."""
        if self._table is None:
            return self._range
        found = self._range
        histogram = Histogram(self._exponent, self._table[1:].copy(), int(self._table[0]))
        return TensorRange(found.min, found.max, found.amax, found.count, histogram)

    def _count(self, array: Array, amax: float, counter: Counter) -> None:
        if self._table is None:
            self._table = new_table()
        exponent = exponent_for(amax)
        if exponent is None:
            self._table[0] += array.size
            return
        if self._exponent is None or exponent > self._exponent:
            if self._exponent is not None:
                self._table[1:] = widen(self._table[1:], exponent - self._exponent)
            self._exponent = exponent
        counter.count(array, self._exponent, self._table)


def range_of(array: Array) -> TensorRange:
    """Return the range of the values of one array; NaN where any value is NaN."""
    if not array.size:
        return UNSEEN
    # Adding 0.0 turns -0.0 into 0.0: which of the two zeros min() and max() find depends on their order.
    low, high = float(array.min()) + 0.0, float(array.max()) + 0.0
    return TensorRange(low, high, max(abs(low), abs(high)), array.size)
