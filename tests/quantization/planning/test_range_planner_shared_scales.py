"""One scale for a group: the largest of its members, so that the range of each fits."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from qdqtool.models.plan import Placement, Slot
from qdqtool.numerics import formats
from qdqtool.numerics.granularity import PerTensor
from qdqtool.numerics.scheme import QuantParams, QuantScheme
from qdqtool.quantization.planning.placement import ProposedSlot
from qdqtool.quantization.planning.range_planner import share_scales

INT8 = QuantScheme(formats.get("int8"), PerTensor())


@given(st.lists(st.tuples(st.none() | st.integers(0, 2), st.floats(2.0**-20, 2.0**20, width=32)), max_size=8))
def test_each_member_gets_the_largest_scale_of_its_group_and_others_keep_theirs(
    members: list[tuple[int | None, float]],
) -> None:
    entries, placements = [], []
    for number, (group, scale) in enumerate(members):
        slot = Slot((), f"t{number}")
        entries.append(ProposedSlot(slot, "activation", INT8, "", range_group=group))
        placements.append(Placement(slot, QuantParams(INT8, np.float32(scale).reshape(())), f"r{number}"))
    found = share_scales(entries, iter(placements), lambda number: members[number][1])
    assert [(each.slot, each.reason) for each in found] == [(each.slot, each.reason) for each in placements]
    for (group, scale), each in zip(members, found, strict=True):
        shared = [other for number, other in members if number == group]
        assert float(each.params.scale) == (scale if group is None else max(shared))
