"""Entropy: the threshold with the least KL divergence between the measured and the clipped, coarsened distribution.

This is the procedure that NVIDIA published for TensorRT (S. Migacz, "8-bit Inference with TensorRT", GTC 2017). For
details that the publication leaves open, these choices were made:

* There are up to 2,048 bins from 0 to the largest magnitude: the narrowest bins that consist of whole bins of the
  histogram, so that no count is split. Values that are exactly 0 are left out, because no threshold clips them.
* Candidates are the first ``i`` bins, for i from 128 to all bins; all bins means no clipping.
* P is these bins, with all counts beyond them added to the last bin. Q is the same bins *without* these counts, merged
  to as many levels as the format has magnitudes (128 for int8): bin j is in level ``j * levels // i``, and the count of
  a level is spread evenly over its bins that are not empty. P and Q are each divided by their sum.
* The divergence is ``sum(P * log(P / Q))`` without smoothing: it is infinite if the last bin is empty and there are
  values beyond it.
* The least divergence wins; on a tie, the larger threshold wins. The threshold is ``i + 0.5`` bins, or the largest
  magnitude if all bins are kept.

Levels are evenly spaced, so the procedure does not apply to floating-point formats: their values are not clipped.
"""

import numpy as np

from qdqtool.numerics.dtypes import FLOAT64, Array
from qdqtool.quantization.ranges.calibrators import mse
from qdqtool.quantization.ranges.calibrators._types import Calibrator, RangeGoal, Threshold
from qdqtool.quantization.ranges.histogram import Histogram
from qdqtool.quantization.ranges.types import TensorRange

BINS = 2048


def _threshold(seen: TensorRange, goal: RangeGoal) -> Threshold:
    """Return the threshold with the least divergence; for peaked tensors, the one with the least squared error."""
    if goal.peaked:
        return mse.CALIBRATOR.threshold(seen, goal)
    if goal.format.kind == "float":
        return Threshold(
            seen.amax, "entropy", f"nothing is clipped: entropy needs evenly spaced levels, not {goal.format}"
        )
    levels = int(goal.format.high) + 1
    if seen.histogram is None or seen.amax == 0 or levels > BINS:
        return Threshold(seen.amax, "entropy", "nothing is clipped")
    bins, width = even_bins(seen.histogram)
    divergences = divergence(bins, levels)
    # Reversed, because argmin returns the first of equal values: the larger threshold wins a tie.
    kept = len(bins) - int(np.argmin(divergences[::-1]))
    amax = seen.amax if kept == len(bins) else min((kept + 0.5) * width, seen.amax)
    return Threshold(amax, "entropy", f"least divergence with {levels} levels")


CALIBRATOR = Calibrator(_threshold)


def even_bins(histogram: Histogram) -> tuple[Array, float]:
    """Return the counts in at most :data:`BINS` even bins up to the largest magnitude, float64, and the bin width."""
    used = int(np.flatnonzero(histogram.counts)[-1]) + 1
    group = -(-used // BINS)
    starts = np.arange(0, used, group)
    bins = np.add.reduceat(histogram.counts[:used], starts).astype(FLOAT64)
    return bins, float(np.ldexp(group, histogram.exponent or 0))


def divergence(bins: Array, levels: int) -> Array:
    """Return the KL divergence of the distribution in few levels from the full one, for each number of kept bins.

    In a level with the sum S of counts and n bins that are not empty, Q is ``S / n`` for each of these bins. So sums
    over bins become sums over levels, which are differences of running sums.

    Args:
        bins: Counts, float64, shape [m], the last one not 0.
        levels: Number of levels, at most m.

    Returns:
        The divergence in nats when the first ``levels``, ``levels + 1``, ... m bins are kept, float64.
    """
    kept = np.arange(levels, len(bins) + 1)
    counts, filled = np.append(0.0, bins.cumsum()), np.append(0.0, (bins > 0).cumsum())
    total, last, within = counts[-1], bins[kept - 1], counts[kept]
    beyond = total - within
    cross = np.concatenate([_cross(counts, filled, some, levels) for some in np.split(kept, range(64, len(kept), 64))])
    own = np.append(0.0, _xlogx(bins).cumsum())[kept - 1] + _xlogx(last + beyond) - total * _log(total)
    # The last of all bins is not empty, so there are values beyond every empty bin.
    return np.where(last == 0, np.inf, (own - cross + total * _log(within)) / total)


def _cross(counts: Array, filled: Array, kept: Array, levels: int) -> Array:
    """Return ``sum(P * log(Q))`` before normalization; few candidates at a time stay in the cache."""
    # First bin of each level: ceil(level * kept / levels).
    starts = -(np.arange(levels + 1) * -kept[:, None] // levels)
    level, used = np.diff(counts[starts]), np.diff(filled[starts])
    share = _log(level / np.maximum(used, 1.0))
    return np.asarray((level * share).sum(axis=1) + (counts[-1] - counts[kept]) * share[:, -1])


def _xlogx(values: Array) -> Array:
    return values * _log(values)


def _log(values: Array) -> Array:
    """Return the logarithm, and 0 for 0: the limit of ``x * log(x)`` is 0."""
    return np.asarray(np.log(values, out=np.zeros_like(values), where=values > 0))
