"""Few wide bins of a histogram, to draw it."""

from dataclasses import dataclass
from math import inf

import numpy as np

from qdqtool.quantization.ranges.histogram import Counts, Histogram

MOST_BINS = 64
"""Most bins that a coarse histogram has. It fills more than half of them."""


@dataclass(frozen=True, slots=True, eq=False)
class CoarseCounts:
    """A histogram of magnitudes in few bins.

    Attributes:
        bin_width: Width of a bin, a power of two: bin i counts ``i * bin_width <= |x| < (i + 1) * bin_width``.
        counts: int64, at most :data:`MOST_BINS`, the last one not 0. Values that are exactly zero are not counted.
        beyond: Values behind the last bin.
    """

    bin_width: float
    counts: Counts
    beyond: int


def coarse_counts(histogram: Histogram, upto: float = inf) -> CoarseCounts | None:
    """Merge the bins of a histogram exactly, to the narrowest that show its values.

    Args:
        histogram: The histogram.
        upto: The magnitude up to which values are shown at least; larger ones are counted as beyond.

    Returns:
        The counts; None where all values are zeros.
    """
    if histogram.exponent is None:
        return None
    last = int(np.flatnonzero(histogram.counts)[-1])
    # In the histogram's own bins. A magnitude of `upto` itself is shown.
    with np.errstate(over="ignore"):
        shown = int(min(last, np.ldexp(upto, -histogram.exponent))) + 1
    doublings = max((shown - 1).bit_length() - (MOST_BINS.bit_length() - 1), 0)
    wide = histogram.widened(histogram.exponent + doublings)
    counts = wide[:MOST_BINS]
    used = np.flatnonzero(counts)
    kept = counts[: int(used[-1]) + 1] if used.size else counts[:1]
    return CoarseCounts(
        float(np.ldexp(1.0, histogram.exponent + doublings)), kept, int(histogram.counts.sum() - kept.sum())
    )
