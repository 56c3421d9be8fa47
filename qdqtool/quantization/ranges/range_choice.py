"""The choice of the range of one activation, and what another calibration method would have chosen."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Final

from qdqtool.models.plan import Slot
from qdqtool.quantization.ranges import calibrators
from qdqtool.quantization.ranges.calibrators import Goal, Threshold
from qdqtool.quantization.ranges.method_choice import chosen_method, threshold
from qdqtool.quantization.ranges.types import CalibrationRecord, TensorRange

BOUND: Final = "bound"
"""In place of a method: the operator that makes the tensor limits its values."""


@dataclass(frozen=True, slots=True, eq=False)
class RangeChoice:
    """How the range of one activation was chosen.

    Attributes:
        slot: Its pair.
        seen: Its statistics.
        goal: The purpose of the threshold.
        own: Its threshold, before it is shared with the other members of its group.
        group: Activations with the same number get one scale; None for a scale of its own.
    """

    slot: Slot
    seen: TensorRange
    goal: Goal
    own: Threshold
    group: int | None = None

    @property
    def is_bound(self) -> bool:
        """Whether the range is known without data."""
        return self.own.method == BOUND

    def by(self, method: str, record: CalibrationRecord) -> "RangeChoice":
        """Return the choice with the calibration method that a user names, from the same statistics."""
        if self.is_bound or (self.own.method == method and self.own.apart is None):
            # The method found it, asked by itself or by `auto`; to ask it again would take milliseconds.
            return self
        automatic = method == calibrators.DEFAULT
        found = threshold(chosen_method(record, method), self.seen, self.goal, automatic=automatic)
        return replace(self, own=found)


def bound_threshold(bound: float) -> Threshold:
    """Return the threshold of a tensor whose values cannot be larger than ``bound``."""
    return Threshold(bound, BOUND, "no value can be larger")


def final_thresholds(choices: Sequence[RangeChoice]) -> tuple[Threshold, ...]:
    """Return the threshold of each activation: in a group, that of the member with the largest range."""
    leaders = largest_members([choice.group for choice in choices], lambda number: choices[number].own.amax)
    return tuple(choices[leader].own for leader in leaders)


def largest_members(groups: Sequence[int | None], size: Callable[[int], float]) -> tuple[int, ...]:
    """Return for each member the number of the largest one of its group, the first on a tie; its own without a group.

    Args:
        groups: The group of each member.
        size: What members are compared by; called with the number of a member that is in a group.
    """
    largest: dict[int, int] = {}
    for number, group in enumerate(groups):
        if group is not None:
            largest[group] = max(largest.get(group, number), number, key=size)
    return tuple(number if group is None else largest[group] for number, group in enumerate(groups))
