"""Give all slots of a range group one scale, that of the largest range."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace

from qdqtool.models.plan import Placement
from qdqtool.quantization.planning.placement import ProposedSlot
from qdqtool.quantization.ranges.range_choice import largest_members


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
    leaders = largest_members([entry.range_group for entry in entries], size)
    return tuple(
        placement if leader == number else replace(placement, params=found[leader].params)
        for number, (leader, placement) in enumerate(zip(leaders, found, strict=True))
    )
