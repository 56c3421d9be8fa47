"""The plan: placements in their order, and slots that are recognized by what they name."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from qdqtool.models.plan import Placement, QuantPlan, Slot, UseRef
from qdqtool.numerics import formats
from qdqtool.numerics.granularity import PerTensor
from qdqtool.numerics.scheme import QuantParams, QuantScheme

PARAMS = QuantParams(QuantScheme(formats.get("int8"), PerTensor()), np.float32(0.5).reshape(()))


@given(st.lists(st.sampled_from("xyz"), max_size=6))
def test_a_plan_gives_its_placements_in_their_order(names):
    placements = tuple(Placement(Slot((), name), PARAMS, "why") for name in names)
    plan = QuantPlan(placements)
    assert list(plan) == list(placements)
    assert len(plan) == len(names)


def test_slots_of_the_same_place_are_equal_and_may_be_keys():
    use = UseRef((), ("y",), 1)
    assert len({Slot((), "x"), Slot((), "x"), Slot(("body",), "x"), Slot((), "x", (use,))}) == 3
    assert Slot((), "x", (use,)) == Slot((), "x", (UseRef((), ("y",), 1),))


def test_a_slot_stands_for_every_use_and_codes_are_the_nearest_ones_unless_given():
    placement = Placement(Slot((), "x"), PARAMS, "why")
    assert placement.slot.uses is None
    assert placement.codes is None
