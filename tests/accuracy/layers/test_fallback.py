"""Which units take a fallback format: those whose pairs a second plan has too, on the same tensors and readers."""

from dataclasses import replace
from pathlib import Path

import pytest
from accuracy.layers.test_units import attention, residual, shared_weight, turned_weights
from support.layered import MAX, chain, planned, rows, save

from qdqtool.accuracy.layers.costs import FormatBits, costs_of, fallback_shares
from qdqtool.accuracy.layers.fallback import Fallback, FinerPlan, fallback_of
from qdqtool.accuracy.layers.units import Unit, by_reader, units_of
from qdqtool.models.plan import QuantPlan
from qdqtool.quantization.planning.recipe import Recipe

BITS = FormatBits(quantized=8, fallback=8, unquantized=32, activations=True)
NETWORKS = {
    "chain": (chain, (4, 16)),
    "residual": (residual, (1, 16, 4, 4)),
    "attention": (attention, (16, 16)),
    "turned weights": (turned_weights, (4, 16)),
    "shared weight": (shared_weight, (4, 16)),
}


def taking(folder: Path, drop: str = "", recipe: Recipe = MAX) -> tuple[tuple[Unit, ...], Fallback, QuantPlan]:
    """The units of an int8 plan, and their fallback with an fp8 plan that lacks the pairs of one tensor."""
    with planned(folder, recipe) as one, planned(folder, replace(recipe, quantize_mode="fp8")) as other:
        index = one.index
        plan = by_reader(one.plan, index)
        units = units_of(plan, index)
        kept = QuantPlan(tuple(each for each in by_reader(other.plan, index) if each.slot.tensor != drop))
        finer = FinerPlan(name="fp8", digest="0c", plan=kept, bits=BITS)
        costs = costs_of(units, index)
        found = fallback_of(plan, finer, units, costs, index)
        expected = dict(zip(units, fallback_shares(costs, BITS), strict=True))
        assert found.shares == {unit: expected[unit] for unit in found.shares}
        return units, found, plan


@pytest.mark.parametrize("name", NETWORKS)
def test_units_whose_pairs_both_plans_have_take_the_format(name: str, tmp_path: Path):
    make, shape = NETWORKS[name]
    save(tmp_path, make(), rows(shape))
    units, found, plan = taking(tmp_path)
    assert set(found.shares) == set(units)
    assert found.key == "fp8-0c"
    assert sorted(found.placements) == list(range(len(plan)))
    for site, placement in enumerate(plan):
        assert found.placements[site].slot == placement.slot
        assert found.placements[site].params.scheme.format.name == "float8e4m3fn"
        assert placement.params.scheme.format.name == "int8"
    for unit in units:
        assert list(found.setting(unit)) == list(unit.sites)


def test_a_unit_whose_weight_has_no_such_pair_does_not_take_it(tmp_path: Path):
    save(tmp_path, chain(4), rows())
    units, found, plan = taking(tmp_path, drop="w2")
    missing = [unit for unit in units if unit not in found.shares]
    assert [unit.leader.label for unit in missing] == ["m2"]
    assert {site for unit in missing for site in unit.sites} == set(range(len(plan))) - set(found.placements)


def test_a_second_plan_with_more_pairs_for_a_node_is_not_taken_there(tmp_path: Path):
    """A node with more pairs than in the plan could not be switched as a whole."""
    save(tmp_path, chain(3), rows())
    with planned(tmp_path) as one:
        index = one.index
        plan = by_reader(one.plan, index)
        fewer = QuantPlan(tuple(each for each in plan if each.slot.tensor != "r0"))
        units = units_of(fewer, index)
        finer = FinerPlan(name="fp8", digest="0c", plan=plan, bits=BITS)
        found = fallback_of(fewer, finer, units, costs_of(units, index), index)
    assert {unit.leader.label for unit in found.shares} == {"m0", "m2"}


def test_an_empty_plan_is_taken_by_none(tmp_path: Path):
    save(tmp_path, chain(3), rows())
    with planned(tmp_path) as one:
        index = one.index
        plan = by_reader(one.plan, index)
        units = units_of(plan, index)
        finer = FinerPlan(name="fp8", digest="0c", plan=QuantPlan(()), bits=BITS)
        found = fallback_of(plan, finer, units, costs_of(units, index), index)
    assert (found.shares, found.placements) == ({}, {})
