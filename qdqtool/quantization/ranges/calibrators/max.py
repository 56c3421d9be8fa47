"""Max: the largest magnitude in the calibration data; no value of this data is clipped."""

from qdqtool.quantization.ranges.calibrators._types import Calibrator, RangeGoal, Threshold
from qdqtool.quantization.ranges.types import TensorRange


def _threshold(seen: TensorRange, goal: RangeGoal) -> Threshold:  # noqa: ARG001 -- the same for every goal
    return Threshold(seen.amax, "max", "nothing is clipped")


CALIBRATOR = Calibrator(_threshold, needs_histogram=False)
