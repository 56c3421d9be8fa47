"""The request and the result of a calibration method."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

from qdqtool.numerics.number_format import NumberFormat
from qdqtool.quantization.ranges.types import TensorRange

PERCENTILE = 99.99
"""Default of the method ``percentile``: percentage of the values that are not clipped."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RangeGoal:
    """The purpose of a threshold.

    Attributes:
        format: The number format whose largest code represents the threshold; symmetric, with one scale per tensor.
        peaked: Whether the few largest values matter most, as in the output of a Softmax. Methods that count clipped
            values then return the threshold of ``mse``.
        percentile: For the method ``percentile``: percentage of the values that are within the threshold.
    """

    format: NumberFormat
    peaked: bool = False
    percentile: float = PERCENTILE


@dataclass(frozen=True, slots=True)
class Threshold:
    """The magnitude that the largest code represents, and how it was found.

    Attributes:
        amax: The magnitude, in the unit of the tensor; larger values are clipped.
        method: Id of the method that found the magnitude; for ``auto``, the id of the method that it chose.
        reason: The reason in a few words.
        apart: Kind of distant values that are clipped: an attention ``mask``, or a few outliers (``strays``); None if
            there are none.
    """

    amax: float
    method: str
    reason: str
    apart: Literal["mask", "strays"] | None = None


@dataclass(frozen=True, slots=True)
class Calibrator:
    """One calibration method.

    Attributes:
        threshold: Chooses the threshold of one tensor from its statistics, between 0 and the largest magnitude.
        needs_histogram: Whether the method reads the histogram of the range.
    """

    threshold: Callable[[TensorRange, RangeGoal], Threshold]
    needs_histogram: bool = True
