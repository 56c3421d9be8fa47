"""MSE: the threshold with the least squared error on the grid of the format, from rounding and clipping together."""

from dataclasses import dataclass

import numpy as np

from qdqtool.numerics.number_format import NumberFormat
from qdqtool.quantization.ranges.calibrators._density import Density, squared_error
from qdqtool.quantization.ranges.calibrators._types import Calibrator, RangeGoal, Threshold
from qdqtool.quantization.ranges.types import TensorRange

FACTORS = 2.0 ** (-np.arange(129) / 16)
"""Shares of the largest magnitude that are tried first: 1 to 1/256, each 4.2 % smaller than the one before."""
NEIGHBOURS = 2.0 ** (np.arange(16, -17, -1) / 256)
"""Factors that are then tried on the best share: up to the neighboring shares, in steps of 0.27 %."""


@dataclass(frozen=True, slots=True)
class Found:
    """The best threshold.

    Attributes:
        amax: The threshold.
        error: The squared error with this threshold, summed over all values.
        unclipped_error: The squared error without clipping.
    """

    amax: float
    error: float
    unclipped_error: float


def search(density: Density, fmt: NumberFormat) -> Found:
    """Return the best of :data:`FACTORS`, refined by the best of its :data:`NEIGHBOURS`; on a tie, the larger one."""
    coarse = squared_error(density, density.amax * FACTORS, fmt)
    near = density.amax * np.minimum(FACTORS[np.argmin(coarse)] * NEIGHBOURS, 1.0)
    fine = squared_error(density, near, fmt)
    best = int(np.argmin(fine))
    return Found(float(near[best]), float(fine[best]), float(coarse[0]))


def _threshold(seen: TensorRange, goal: RangeGoal) -> Threshold:
    """Return the threshold with the least error."""
    if seen.histogram is None or seen.amax == 0:
        return Threshold(seen.amax, "mse", "nothing is clipped")
    found = search(Density.of(seen.histogram, seen.amax), goal.format)
    return Threshold(found.amax, "mse", f"least squared error on {goal.format}")


CALIBRATOR = Calibrator(_threshold)
