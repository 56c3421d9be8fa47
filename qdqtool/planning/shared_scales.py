"""Give all slots of a range group the largest of their scales."""

from collections.abc import Iterable, Sequence
from dataclasses import replace

from qdqtool.plan import Placement
from qdqtool.planning.placement import ProposedSlot


def share_scales(entries: Sequence[ProposedSlot], placements: Iterable[Placement]) -> tuple[Placement, ...]:
    """Return the placements, each with the parameters of the member of its group with the largest scale.

    Args:
        entries: The slots, in the order of the placements.
        placements: Their parameters, found one by one; per-tensor in a group.
    """
    found = list(placements)
    largest: dict[int, Placement] = {}
    for entry, placement in zip(entries, found, strict=True):
        group = entry.range_group
        if group is not None:
            best = largest.setdefault(group, placement)
            largest[group] = max(best, placement, key=lambda each: float(each.params.scale))
    return tuple(
        placement if entry.range_group is None else replace(placement, params=largest[entry.range_group].params)
        for entry, placement in zip(entries, found, strict=True)
    )
