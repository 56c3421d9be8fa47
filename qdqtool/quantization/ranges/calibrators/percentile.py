"""Percentile: the magnitude below which a given percentage of the values lies; larger values are clipped."""

import numpy as np

from qdqtool.quantization.ranges.calibrators import mse
from qdqtool.quantization.ranges.calibrators._types import Calibrator, RangeGoal, Threshold
from qdqtool.quantization.ranges.histogram import Histogram
from qdqtool.quantization.ranges.types import TensorRange


def _threshold(seen: TensorRange, goal: RangeGoal) -> Threshold:
    """Return the percentile of all magnitudes, including zeros, interpolated inside a bin; if peaked, use ``mse``."""
    if goal.peaked:
        return mse.CALIBRATOR.threshold(seen, goal)
    if seen.histogram is None or seen.amax == 0:
        return Threshold(seen.amax, "percentile", "nothing is clipped")
    amax = min(magnitude_at(seen.histogram, goal.percentile / 100), seen.amax)
    if amax == 0:
        return Threshold(seen.amax, "percentile", f"nothing is clipped: {goal.percentile:g} % of the values are 0")
    return Threshold(amax, "percentile", f"{goal.percentile:g} % of the values are not clipped")


CALIBRATOR = Calibrator(_threshold)


def magnitude_at(histogram: Histogram, share: float) -> float:
    """Return the magnitude up to which a share of the values lies, interpolated inside a bin."""
    sums = np.concatenate([[0], histogram.counts.cumsum()]) + histogram.zeros
    return float(np.interp(share * int(sums[-1]), sums, histogram.edges()))
