"""Auto: clip a tensor if that lowers the squared error on the grid of the format, else do not clip.

The reasons are in ``docs/explanation/calibration.md``. Three results are possible:

* ``mse``: the threshold with the least squared error, if that error is lower than without clipping by more than
  :data:`GAIN`. Smaller gains are not worth it: rounding errors average out in later sums, clipped values are lost, and
  later data may have larger values than the calibration data.
* ``max``: in all other cases.
* ``mse`` over the bulk: if one scale would round nearly all values to 0, because a few outliers or a mask are far away
  from them. The distant values are clipped; a mask is clipped only so far that it remains a mask.
"""

from qdqtool.numerics.rounding import magnitudes
from qdqtool.quantization.ranges.calibrators._density import (
    MASK_MARGIN,
    Density,
    OutlierSplit,
    clipped_fraction,
    split_outliers,
)
from qdqtool.quantization.ranges.calibrators._types import Calibrator, RangeGoal, Threshold
from qdqtool.quantization.ranges.calibrators.mse import search
from qdqtool.quantization.ranges.types import TensorRange

GAIN = 0.02
"""The share of the squared error that clipping must save; 2 % are 0.09 dB."""


def _threshold(seen: TensorRange, goal: RangeGoal) -> Threshold:
    """Return the threshold, with the method that found it and the reason."""
    if seen.histogram is None or seen.amax == 0:
        return Threshold(seen.amax, "max", "nothing is clipped")
    found = search(Density.of(seen.histogram, seen.amax), goal.format)
    apart = split_outliers(seen, found.amax * float(magnitudes(goal.format)[1]) / goal.format.high / 2)
    if apart is not None:
        return _of_bulk(apart, seen, goal)
    if found.error >= (1 - GAIN) * found.unclipped_error:
        return Threshold(seen.amax, "max", "clipping would hardly lower the error")
    saved = 1 - found.error / found.unclipped_error
    clipped = clipped_fraction(seen.histogram, found.amax)
    return Threshold(found.amax, "mse", f"{saved:.0%} less squared error, with {clipped:.2g} of the values clipped")


CALIBRATOR = Calibrator(_threshold)


def _of_bulk(apart: OutlierSplit, seen: TensorRange, goal: RangeGoal) -> Threshold:
    what = f"{apart.share:.2g} of the values are far above the rest, up to {seen.amax:g}, and are clipped"
    if apart.is_mask:
        # A mask is at least 1,000 and 16 times the bulk, so the threshold is well below it.
        return Threshold(
            apart.edge + MASK_MARGIN, "mse", f"a mask: {what}; otherwise the other values would become 0", "mask"
        )
    found = search(Density.of(apart.bulk, apart.edge), goal.format)
    return Threshold(found.amax, "mse", f"outliers: {what}; otherwise the other values would become 0", "strays")
