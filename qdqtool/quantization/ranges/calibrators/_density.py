"""Read a histogram as a density: values are assumed to be spread evenly inside a bin, so sums become integrals.

One scale for outliers and other values would round the others to 0: with a mask of -1e4, int8 has a step of 79.
"""

import functools
from dataclasses import dataclass
from typing import Self

import numpy as np

from qdqtool.numerics.dtypes import FLOAT64, Array
from qdqtool.numerics.number_format import NumberFormat
from qdqtool.numerics.rounding import magnitudes
from qdqtool.quantization.ranges.histogram import Histogram
from qdqtool.quantization.ranges.types import TensorRange

GAP = 16
"""Smallest ratio of an outlier to the largest magnitude of the bulk, with no values in between."""
LOST_SHARE = 0.9
"""Share of the bulk that must be rounded to 0 before the outliers are clipped instead."""
STRAY_SHARE = 1e-4
"""Largest share of a tensor's values that may be outliers. The limit does not apply to a mask."""
MASK_MAGNITUDE = 1e3
"""Negative values of about equal size are a mask from this magnitude on: no other term of attention is as large."""
MASK_MARGIN = 10.0
"""Distance of a mask below the bulk: Softmax makes it ``exp(-10)`` = 0.00005 of the smallest unmasked score."""
RESOLVED_BINS = 4
"""Smallest number of bins that the bulk must cover; in fewer bins its distribution is unknown."""


@dataclass(frozen=True, slots=True, eq=False)
class OutlierSplit:
    """A tensor whose values divide into a bulk and distant values.

    Attributes:
        bulk: The histogram of the bulk.
        edge: Upper end of the bulk, in the unit of the tensor; no value lies between it and the distant values.
        share: Share of distant values.
        is_mask: Whether the distant values are a mask.
    """

    bulk: Histogram
    edge: float
    share: float
    is_mask: bool


def split_outliers(seen: TensorRange, lost: float) -> OutlierSplit | None:
    """Separate the bulk of a tensor from distant values, if magnitudes below ``lost`` become 0.

    Args:
        seen: Statistics with a histogram.
        lost: Half the smallest code, in the unit of the tensor.

    Returns:
        None if enough of the bulk remains, there is no gap, too many values are distant, or the bulk is narrower than
        the histogram resolves.
    """
    histogram = seen.histogram
    if histogram is None or histogram.exponent is None:
        return None
    width = float(np.ldexp(1.0, histogram.exponent))
    filled = np.flatnonzero(histogram.counts)
    gaps = filled[1:] / (filled[:-1] + 1)
    if not len(gaps) or gaps.max() < GAP:
        return None
    last, nearest = filled[gaps.argmax()], filled[gaps.argmax() + 1]
    counts = np.where(np.arange(len(histogram.counts)) <= last, histogram.counts, 0)
    zeroed = counts[: int(lost / width)].sum()
    if last < RESOLVED_BINS or zeroed < LOST_SHARE * counts.sum():
        return None
    share = 1 - (int(counts.sum()) + histogram.zeros) / seen.count
    is_mask = _is_mask(seen, float(nearest * width))
    if share > STRAY_SHARE and not is_mask:
        return None
    return OutlierSplit(
        Histogram(histogram.exponent, counts, histogram.zeros), float((last + 1) * width), share, is_mask
    )


def _is_mask(seen: TensorRange, nearest: float) -> bool:
    # If the largest value is below the nearest distant magnitude, all distant values are negative.
    return seen.max < nearest and seen.amax >= MASK_MAGNITUDE and nearest >= 0.9 * seen.amax


LEAST_WIDTH = 2.0**-10
"""Smallest part of the last bin over which its values are spread evenly. The largest magnitude is often the lower bound
of its bin, as for float16 tensors and the 6 of a Relu6. Sums over a bin without width would be noise.
"""


@dataclass(frozen=True, slots=True, eq=False)
class Density:
    """The distribution of the magnitudes of a tensor, without zeros.

    Attributes:
        edges: Bounds of the bins from 0 to the largest magnitude, float64; one more than there are bins.
        counts: Number of values in each bin, float64, the last one not 0.
        sums: Number, sum and sum of squares of the values up to each edge; shape [3, edges].
        amax: The largest magnitude.
    """

    edges: Array
    counts: Array
    sums: Array
    amax: float

    @classmethod
    def of(cls, histogram: Histogram, amax: float) -> Self:
        """Return the density of a histogram whose largest magnitude ``amax`` is greater than 0."""
        used = int(np.flatnonzero(histogram.counts)[-1]) + 1
        counts = histogram.counts[:used].astype(FLOAT64)
        edges = histogram.edges()[: used + 1].copy()
        edges[-1] = max(amax, edges[-2] + LEAST_WIDTH * (edges[-1] - edges[-2]))
        inside = counts * _means(edges[:-1], edges[1:])
        return cls(edges, counts, np.concatenate([np.zeros((3, 1)), inside.cumsum(axis=1)], axis=1), amax)

    def below(self, bounds: Array) -> Array:
        """Return count, sum and sum of squares of the values up to each of ``bounds``, shape [3, ...]."""
        inside = np.clip(bounds, 0.0, self.edges[-1])
        bins = np.minimum((inside / self.edges[1]).astype(np.int64), len(self.counts) - 1)
        start, width = self.edges[bins], np.diff(self.edges)[bins]
        count = self.counts[bins] * ((inside - start) / width)
        return np.asarray(self.sums[:, bins] + count * _means(start, inside))


def _means(low: Array, high: Array) -> Array:
    """Return the mean of the powers 0, 1 and 2 of values spread evenly from ``low`` to ``high``, shape [3, ...]."""
    # Differences of powers divided by the width would lose 10 more bits in the narrowest last bin.
    return np.stack([np.ones_like(high), (low + high) / 2, (low**2 + low * high + high**2) / 3])


def squared_error(density: Density, amax: Array, fmt: NumberFormat) -> Array:
    """Return the summed squared error of symmetric rounding to a format whose largest value represents ``amax``.

    All values in a cell, between the midpoints around a value g of the format's grid, become g. The error of a cell is
    ``sum(x**2) - 2 g sum(x) + g**2 count``. The last cell has no upper end: it holds the clipped values.

    Args:
        density: The values.
        amax: Thresholds to try, float64, greater than 0, shape [n].
        fmt: The format.

    Returns:
        The error of each threshold, in the squared unit of the tensor, shape [n].
    """
    scale = amax / fmt.high
    if fmt.bits > 8:
        return _fine_error(density, amax, scale)
    grid, ends = _cells(fmt)
    code = scale[:, None] * grid
    upto = density.below(np.append(scale[:, None] * ends, np.full((len(scale), 1), np.inf), axis=1))
    return np.asarray(_distances(np.diff(upto, axis=-1, prepend=0.0), code).sum(axis=-1))


def _fine_error(density: Density, amax: Array, scale: Array) -> Array:
    """Return the error for steps narrower than bins: ``scale**2 / 12`` for each value that is not clipped."""
    upto = density.below(amax)
    # The mean square of an error that is uniform within half a step on both sides.
    return np.asarray(upto[0] * scale**2 / 12 + _distances(density.sums[:, -1:] - upto, amax))


def _distances(sums: Array, code: Array) -> Array:
    """Return ``sum((x - code)**2)`` from count, sum and sum of squares."""
    count, total, squares = sums
    return np.asarray(np.maximum(squares - 2 * code * total + code**2 * count, 0.0))


@functools.cache
def _cells(fmt: NumberFormat) -> tuple[Array, Array]:
    grid = magnitudes(fmt)
    return grid, (grid[1:] + grid[:-1]) / 2


def clipped_fraction(histogram: Histogram, amax: float) -> float:
    """Return the share of a tensor's values, zeros included, whose magnitude is above ``amax``.

    It is exact if ``amax`` is a bound of a bin; otherwise values are assumed to be spread evenly in its bin.
    """
    total = int(histogram.counts.sum()) + histogram.zeros
    if histogram.exponent is None or not total:
        return 0.0
    position = np.ldexp(amax, -histogram.exponent)
    whole = min(int(position), len(histogram.counts))
    above = float(histogram.counts[whole:].sum())
    if whole < len(histogram.counts):
        above -= float(histogram.counts[whole]) * (position - whole)
    return above / total
