"""Give all slots of a range group one scale, that of the largest range."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace

from qdqtool.plan import Placement
from qdqtool.planning.placement import ProposedSlot


def share_scales(
    entries: Sequence[ProposedSlot], placements: Iterable[Placement], size: Callable[[int], float]
) -> tuple[Placement, ...]:
    """Return the placements, each with the parameters of the largest member of its group.

    Args:
        entries: The slots, in the order of the placements.
        placements: Their parameters, found one by one; per-tensor in a group.
        size: The largest magnitude of the range of a slot in a group, by its number. The scale would not do: it is 1
            where all values are 0.
    """
    found = list(placements)
    leaders = largest_members(entries, size)
    return tuple(
        placement if leader == number else replace(placement, params=found[leader].params)
        for number, (leader, placement) in enumerate(zip(leaders, found, strict=True))
    )


def largest_members(entries: Sequence[ProposedSlot], size: Callable[[int], float]) -> tuple[int, ...]:
    """Return for each slot the number of the largest member of its group, the first on a tie; its own without a group.

    Args:
        entries: The slots.
        size: What members are compared by; called with the number of a slot that is in a group.
    """
    largest: dict[int, int] = {}
    for number, entry in enumerate(entries):
        group = entry.range_group
        if group is not None:
            largest[group] = max(largest.get(group, number), number, key=size)
    return tuple(
        number if entry.range_group is None else largest[entry.range_group] for number, entry in enumerate(entries)
    )
