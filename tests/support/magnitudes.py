"""Statistics of arrays, made in the plainest way."""

import math
from collections.abc import Iterator, Mapping
from fractions import Fraction

import numpy as np

from qdqtool.numerics.counting import BINS
from qdqtool.quantization.ranges.histogram import Histogram
from qdqtool.quantization.ranges.types import TensorRange

Piece = tuple[Fraction, Fraction, int]
"""Lower bound, upper bound and number of values of a bin that is not empty."""


def seen(values: np.ndarray) -> TensorRange:
    """What calibration knows of ``values``, histogram included."""
    return TensorRange(
        float(values.min()), float(values.max()), float(np.abs(values).max()), values.size, histogram(values)
    )


def histogram(values: np.ndarray) -> Histogram:
    """Bins by division of exact float64 magnitudes."""
    magnitudes = np.abs(values.astype(np.float64)).ravel()
    positive = magnitudes[magnitudes > 0]
    if not positive.size:
        return Histogram(None, np.zeros(BINS, np.int64), magnitudes.size)
    exponent = math.frexp(positive.max())[1] - int(math.log2(BINS))
    bins = np.floor(positive / math.ldexp(1.0, exponent)).astype(np.int64)
    return Histogram(exponent, np.bincount(bins, minlength=BINS), magnitudes.size - positive.size)


def counted(counts: Mapping[int, int], exponent: int = 0, zeros: int = 0) -> Histogram:
    """The histogram with these counts by bin."""
    table = np.zeros(BINS, np.int64)
    table[list(counts)] = list(counts.values())
    return Histogram(exponent, table, zeros)


def pieces(found: Histogram) -> Iterator[Piece]:
    """The bins that are not empty, with exact bounds."""
    width = Fraction(2) ** (found.exponent or 0)
    for number in np.flatnonzero(found.counts).tolist():
        yield number * width, (number + 1) * width, int(found.counts[number])
