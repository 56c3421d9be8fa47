"""A proposed pair: what it has unless placement says otherwise."""

from qdqtool.models.plan import Slot, UseRef
from qdqtool.numerics import formats
from qdqtool.numerics.granularity import PerTensor
from qdqtool.numerics.scheme import QuantScheme
from qdqtool.quantization.planning.placement import PlacementProposal, ProposedSlot

SCHEME = QuantScheme(formats.get("int8"), PerTensor())


def test_a_pair_has_no_bound_no_group_and_no_peak_by_default():
    uses = (UseRef((), ("y",), 0),)
    found = ProposedSlot(Slot((), "x", uses), "activation", SCHEME, "input of MatMul")
    assert (found.bound, found.peaked, found.range_group, found.uses) == (None, False, None, uses)


def test_ranges_are_needed_for_activations_alone():
    slots = tuple(
        ProposedSlot(Slot((), name, ()), "weight" if name in "wv" else "activation", SCHEME, "") for name in "xwav"
    )
    assert [each.slot.tensor for each in PlacementProposal(slots, ()).activations] == ["x", "a"]
