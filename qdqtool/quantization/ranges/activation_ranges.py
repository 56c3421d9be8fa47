"""The chosen range of an activation, and its description for a report: values, and ranges of other methods."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from math import inf
from typing import Final

import numpy as np

from qdqtool.models.graph.scope import display
from qdqtool.models.plan import Slot
from qdqtool.quantization.ranges import calibrators
from qdqtool.quantization.ranges.calibrators import RangeGoal, Threshold, clipped_fraction
from qdqtool.quantization.ranges.histogram import Counts, Histogram, encode_counts
from qdqtool.quantization.ranges.method_choice import chosen_method, threshold
from qdqtool.quantization.ranges.types import CalibrationRecord, Ranges, TensorRange
from qdqtool.quantization.report import ActivationRange, MagnitudeHistogram, MethodRange

BOUND: Final = "bound"
"""Used instead of a method name if the operator that makes the tensor limits its values."""


@dataclass(frozen=True, slots=True, eq=False)
class RangeChoice:
    """How the range of one activation was chosen.

    Attributes:
        slot: The slot of the pair of the activation.
        seen: The statistics of the activation.
        goal: The purpose of the threshold.
        own: The threshold of this activation, before it is shared with the other members of its group.
        group: Activations with the same number share one scale; None for a separate scale.
    """

    slot: Slot
    seen: TensorRange
    goal: RangeGoal
    own: Threshold
    group: int | None = None

    @property
    def is_bound(self) -> bool:
        """Whether the range is known without data."""
        return self.own.method == BOUND

    def by(self, method: str, record: CalibrationRecord) -> "RangeChoice":
        """Return the choice that another calibration method makes from the same statistics."""
        if self.is_bound or (self.own.method == method and self.own.apart is None):
            # This method already found the threshold, directly or for `auto`; another search would take milliseconds.
            return self
        automatic = method == calibrators.DEFAULT
        found = threshold(chosen_method(record, method), self.seen, self.goal, automatic=automatic)
        return replace(self, own=found)


def bound_threshold(bound: float) -> Threshold:
    """Return the threshold of a tensor whose values cannot be larger than ``bound``."""
    return Threshold(bound, BOUND, "no value can be larger")


def final_thresholds(choices: Sequence[RangeChoice]) -> tuple[Threshold, ...]:
    """Return the threshold of each activation; in a group, the threshold of the member with the largest range."""
    leaders = largest_members([choice.group for choice in choices], lambda number: choices[number].own.amax)
    return tuple(choices[leader].own for leader in leaders)


def largest_members(groups: Sequence[int | None], size: Callable[[int], float]) -> tuple[int, ...]:
    """Return, for each member, the number of the largest member of its group (first on a tie; itself without group).

    Args:
        groups: The group of each member.
        size: Returns the size of a member of a group, by its number.
    """
    largest: dict[int, int] = {}
    for number, group in enumerate(groups):
        if group is not None:
            largest[group] = max(largest.get(group, number), number, key=size)
    return tuple(number if group is None else largest[group] for number, group in enumerate(groups))


MOST_BINS = 64
"""Largest number of bins of a coarse histogram; it uses more than half of them."""


@dataclass(frozen=True, slots=True, eq=False)
class CoarseCounts:
    """A histogram of magnitudes in few bins.

    Attributes:
        bin_width: Width of a bin, a power of two: bin i counts ``i * bin_width <= |x| < (i + 1) * bin_width``.
        counts: int64, at most :data:`MOST_BINS`, the last one not 0. Values that are exactly zero are not counted.
        beyond: Number of values above the last bin.
    """

    bin_width: float
    counts: Counts
    beyond: int


def coarse_counts(histogram: Histogram, upto: float = inf) -> CoarseCounts | None:
    """Merge the bins of a histogram exactly, to the narrowest bins in which its values fit.

    Args:
        histogram: The histogram.
        upto: At least the values up to this magnitude are shown; those above the last bin count as ``beyond``.

    Returns:
        The counts, or None if all values are zeros.
    """
    if histogram.exponent is None:
        return None
    last = int(np.flatnonzero(histogram.counts)[-1])
    # Unit: bins of this histogram. A magnitude of exactly `upto` is shown.
    with np.errstate(over="ignore"):
        shown = int(min(last, np.ldexp(upto, -histogram.exponent))) + 1
    doublings = max((shown - 1).bit_length() - (MOST_BINS.bit_length() - 1), 0)
    wide = histogram.widened(histogram.exponent + doublings)
    counts = wide[:MOST_BINS]
    used = np.flatnonzero(counts)
    kept = counts[: int(used[-1]) + 1] if used.size else counts[:1]
    return CoarseCounts(
        float(np.ldexp(1.0, histogram.exponent + doublings)), kept, int(histogram.counts.sum() - kept.sum())
    )


SHOWN = 4
"""A histogram shows values up to this many times the chosen range, or up to the largest magnitude. So outliers do not
hide the other values.
"""


def activation_ranges(
    choices: Sequence[RangeChoice], ranges: Ranges | None, method: str
) -> tuple[ActivationRange, ...]:
    """Describe the ranges of a plan, in the order of the plan.

    Args:
        choices: How the ranges were chosen.
        ranges: The ranges from the calibration; None if another tool gave the ranges, or the mode needs none.
        method: Id of the requested calibration method.
    """
    chosen = final_thresholds(choices)
    if ranges is None:
        return tuple(map(_given, choices, chosen))
    others = {
        name: chosen if name == method else final_thresholds([choice.by(name, ranges.record) for choice in choices])
        for name in calibrators.names()
    }
    return tuple(
        _described(choice, found, {name: each[number] for name, each in others.items()})
        for number, (choice, found) in enumerate(zip(choices, chosen, strict=True))
    )


def _described(choice: RangeChoice, chosen: Threshold, others: dict[str, Threshold]) -> ActivationRange:
    slot, seen = choice.slot, choice.seen
    return ActivationRange(
        tensor=slot.tensor,
        graph=display(slot.scope),
        format=choice.goal.format.name,
        min=seen.min,
        max=seen.max,
        values=seen.count,
        range=chosen.amax,
        clipped=_clipped(seen, chosen.amax),
        method=chosen.method,
        reason=chosen.reason,
        shared=chosen is not choice.own,
        methods=tuple(_methods(seen, others)),
        histogram=_histogram(seen, chosen.amax),
    )


def _given(choice: RangeChoice, chosen: Threshold) -> ActivationRange:
    found = replace(_described(choice, chosen, {}), values=None, clipped=None)
    return found if choice.is_bound else replace(found, method="given", reason="")


def _methods(seen: TensorRange, others: dict[str, Threshold]) -> Iterator[MethodRange]:
    for name, found in others.items():
        clipped = _clipped(seen, found.amax)
        # Without counts, the report would state that methods that need counts clip nothing.
        if clipped is not None and (seen.histogram is not None or not calibrators.get(name).needs_histogram):
            yield MethodRange(method=name, range=found.amax, clipped=clipped)


def _clipped(seen: TensorRange, amax: float) -> float | None:
    if amax >= seen.amax:
        return 0.0
    return None if seen.histogram is None else float(f"{clipped_fraction(seen.histogram, amax):.4g}")


def _histogram(seen: TensorRange, chosen: float) -> MagnitudeHistogram | None:
    if seen.histogram is None:
        return None
    found = coarse_counts(seen.histogram, SHOWN * chosen)
    if found is None:
        return MagnitudeHistogram(bin_width=0.0, counts="", zeros=seen.histogram.zeros, beyond=0)
    return MagnitudeHistogram(
        bin_width=found.bin_width, counts=encode_counts(found.counts), zeros=seen.histogram.zeros, beyond=found.beyond
    )
