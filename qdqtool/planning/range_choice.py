"""The choice of the range of one activation, and what another calibration method would have chosen."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final, Self

from qdqtool.planning.placement import ProposedSlot
from qdqtool.planning.shared_scales import largest_members
from qdqtool.ranges import calibrators
from qdqtool.ranges.calibrators import Goal, Threshold
from qdqtool.ranges.method_choice import chosen_method, threshold
from qdqtool.ranges.types import CalibrationRecord, TensorRange

BOUND: Final = "bound"
"""In place of a method: the operator that makes the tensor limits its values."""


@dataclass(frozen=True, slots=True, eq=False)
class RangeChoice:
    """How the range of one activation was chosen.

    Attributes:
        entry: Its pair.
        seen: Its statistics.
        goal: The purpose of the threshold.
        own: Its threshold, before it is shared with the other members of its group.
    """

    entry: ProposedSlot
    seen: TensorRange
    goal: Goal
    own: Threshold

    @classmethod
    def of(cls, entry: ProposedSlot, seen: TensorRange, goal: Goal, found: Threshold) -> Self:
        """Return the choice for a pair.

        Args:
            entry: The pair.
            seen: The statistics of its tensor.
            goal: The purpose of the threshold.
            found: The threshold of the calibration method, which counts where the tensor has no bound.
        """
        own = found if entry.bound is None else Threshold(entry.bound, BOUND, "no value can be larger")
        return cls(entry, seen, goal, own)

    def by(self, method: str, record: CalibrationRecord) -> "RangeChoice":
        """Return the choice with the calibration method that a user names, from the same statistics."""
        if self.entry.bound is not None:
            return self
        if self.own.method == method and self.own.apart is None:
            # The method found it, asked by itself or by `auto`; to ask it again would take milliseconds.
            return self
        automatic = method == calibrators.DEFAULT
        found = threshold(chosen_method(record, method), self.seen, self.goal, automatic=automatic)
        return replace(self, own=found)


def final_thresholds(choices: Sequence[RangeChoice]) -> tuple[Threshold, ...]:
    """Return the threshold of each activation: in a group, that of the member with the largest range."""
    leaders = largest_members([choice.entry for choice in choices], lambda number: choices[number].own.amax)
    return tuple(choices[leader].own for leader in leaders)
