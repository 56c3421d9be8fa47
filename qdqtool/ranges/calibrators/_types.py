"""What a calibration method is asked, and what it answers."""

from dataclasses import dataclass
from typing import Literal, Protocol

from qdqtool.numerics.number_format import NumberFormat
from qdqtool.ranges.types import TensorRange

PERCENTILE = 99.99
"""How many of a hundred values the method ``percentile`` does not clip, unless told."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Goal:
    """What a threshold is chosen for.

    Attributes:
        format: The number format whose largest code stands for the threshold; symmetric, one scale a tensor.
        peaked: Whether the few largest values carry the meaning, as those of a Softmax do: how many values are clipped
            says nothing then, and methods that go by it answer as ``mse`` does.
        percentile: For the method ``percentile``: how many of a hundred values are to lie within the threshold.
    """

    format: NumberFormat
    peaked: bool = False
    percentile: float = PERCENTILE


@dataclass(frozen=True, slots=True)
class Threshold:
    """What the largest code stands for, and how that was found.

    Attributes:
        amax: The magnitude, in the tensor's own unit; values beyond it are clipped.
        method: Id of the method that found it; ``auto`` names the one that it chose.
        reason: Why, in a few words.
        apart: What lies so far away from all other values that it is clipped: those of an attention ``mask``, or a few
            ``strays``; None where nothing does.
    """

    amax: float
    method: str
    reason: str
    apart: Literal["mask", "strays"] | None = None


class Calibrator(Protocol):
    """One method.

    Attributes:
        needs_histogram: Whether it reads the histogram of the range, and so whether one must be made.
    """

    needs_histogram: bool

    def threshold(self, seen: TensorRange, goal: Goal) -> Threshold:
        """The threshold for one tensor that was seen, from its statistics; between 0 and ``seen.amax``."""
        ...
