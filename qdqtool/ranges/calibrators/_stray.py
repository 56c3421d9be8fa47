"""Values that lie far away from all others of their tensor: a stray outlier or two, or those of an attention mask.

One scale for both leaves nothing of the others: with a mask of -1e4 in it, int8 has a step of 79.
"""

from dataclasses import dataclass

import numpy as np

from qdqtool.ranges.histogram import Histogram
from qdqtool.ranges.types import TensorRange

GAP = 16
"""How many times further out than the bulk a value must lie, with nothing in between."""
LOST_SHARE = 0.9
"""What part of the bulk must be lost for it to be worth more than what lies far away."""
STRAY_SHARE = 1e-4
"""What part of a tensor's values may lie there, unless they are a mask."""
MASK_MAGNITUDE = 1e3
"""From where on negative values that are about equal are a mask: nothing else adds so much to attention scores."""
MASK_MARGIN = 10.0
"""How far below the bulk a mask must stay: Softmax makes it ``exp(-10)`` = 0.00005 of the least that is not masked."""
RESOLVED_BINS = 4
"""How many bins of the histogram the bulk must reach over for anything to be said about it."""


@dataclass(frozen=True, slots=True, eq=False)
class Apart:
    """A tensor whose values fall apart into a bulk and some far away.

    Attributes:
        bulk: The histogram of the bulk.
        edge: No value of the bulk is larger in magnitude.
        share: Which part of all values lies far away.
        is_mask: Whether those are the values of a mask.
    """

    bulk: Histogram
    edge: float
    share: float
    is_mask: bool


def fall_apart(seen: TensorRange, lost: float) -> Apart | None:
    """The bulk of a tensor, if little of it is left when magnitudes below ``lost`` become 0.

    Args:
        seen: Statistics with a histogram.
        lost: Half the smallest code, in the tensor's own unit.

    Returns:
        None where enough of the bulk is left, no gap lies around it, too many values lie far away, or the bulk is
        narrower than the histogram can tell.
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
    return Apart(Histogram(histogram.exponent, counts, histogram.zeros), float((last + 1) * width), share, is_mask)


def _is_mask(seen: TensorRange, nearest: float) -> bool:
    negative = seen.min == -seen.amax and seen.max < nearest
    return negative and seen.amax >= MASK_MAGNITUDE and nearest >= 0.9 * seen.amax
