"""Max: the largest magnitude in the calibration data. No value of that data is clipped."""

from qdqtool.quantization.ranges.calibrators._types import RangeGoal, Threshold
from qdqtool.quantization.ranges.types import TensorRange


class _Max:
    needs_histogram = False

    def threshold(self, seen: TensorRange, goal: RangeGoal) -> Threshold:  # noqa: ARG002 -- the same for every goal
        """Return the largest magnitude."""
        return Threshold(seen.amax, "max", "nothing is clipped")


CALIBRATOR = _Max()
