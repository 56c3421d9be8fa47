"""Find values far away from all others of their tensor: a few outliers, or those of an attention mask.

One scale for both would round the others to 0: with a mask of -1e4 in the tensor, int8 has a step of 79.
"""

from dataclasses import dataclass

import numpy as np

from qdqtool.quantization.ranges.histogram import Histogram
from qdqtool.quantization.ranges.types import TensorRange

GAP = 16
"""Smallest ratio of an outlier to the largest magnitude of the bulk, with no values in between."""
LOST_SHARE = 0.9
"""Share of the bulk that must be rounded to 0 before the outliers are clipped instead."""
STRAY_SHARE = 1e-4
"""Largest share of outliers among a tensor's values, unless they are a mask."""
MASK_MAGNITUDE = 1e3
"""Magnitude from which negative values that are about equal are a mask: no other term of attention is as large."""
MASK_MARGIN = 10.0
"""Distance of a mask below the bulk: Softmax makes it ``exp(-10)`` = 0.00005 of the smallest unmasked score."""
RESOLVED_BINS = 4
"""Smallest number of bins that the bulk must cover; in fewer bins its distribution is unknown."""


@dataclass(frozen=True, slots=True, eq=False)
class OutlierSplit:
    """A tensor whose values divide into a bulk and distant values.

    Attributes:
        bulk: The histogram of the bulk.
        edge: Upper bound of the magnitudes of the bulk.
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
        lost: Half the smallest code, in the tensor's own unit.

    Returns:
        None where enough of the bulk remains, there is no gap, too many values are distant, or the bulk is narrower
        than the histogram resolves.
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
    # A largest value below the nearest distant magnitude means that all distant values are negative.
    return seen.max < nearest and seen.amax >= MASK_MAGNITUDE and nearest >= 0.9 * seen.amax
