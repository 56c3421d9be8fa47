"""The request and the result of a calibration method."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

from qdqtool.numerics.number_format import NumberFormat
from qdqtool.quantization.ranges.types import TensorRange

PERCENTILE = 99.99
"""Default of the method ``percentile``: percent of the values that are not clipped."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RangeGoal:
    """The purpose of a threshold.

    Attributes:
        format: The number format whose largest code stands for the threshold; symmetric, with one scale per tensor.
        peaked: Whether the few largest values matter most, as in the output of a Softmax. Methods that count clipped
            values then answer as ``mse`` does.
        percentile: For the method ``percentile``: percent of the values that are within the threshold.
    """

    format: NumberFormat
    peaked: bool = False
    percentile: float = PERCENTILE


@dataclass(frozen=True, slots=True)
class Threshold:
    """The magnitude that the largest code stands for, and how it was found.

    Attributes:
        amax: The magnitude, in the tensor's own unit; values beyond it are clipped.
        method: Id of the method that found it; ``auto`` gives the id of the method that it chose.
        reason: The reason in a few words.
        apart: Kind of distant values that are clipped: those of an attention ``mask``, or a few ``strays``; None where
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
        threshold: Chooses the threshold of one tensor from its statistics; between 0 and the largest magnitude.
        needs_histogram: Whether it reads the histogram of the range.
    """

    threshold: Callable[[TensorRange, RangeGoal], Threshold]
    needs_histogram: bool = True
