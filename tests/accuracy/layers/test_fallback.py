"""Which layers take a fallback format: those whose pairs a second plan has too, on the same tensors and readers."""

from dataclasses import replace
from pathlib import Path

import pytest
from accuracy.layers.test_layer import attention, residual, shared_weight, turned_weights
from support.layered import MAX, chain, planned, rows, save

from qdqtool.accuracy.layers.fallback import Fallback, FormatBits, SecondaryPlan, fallback_of, fallback_shares
from qdqtool.accuracy.layers.layer import Layer, by_reader, costs_of, layers_of
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


def taking(folder: Path, drop: str = "", recipe: Recipe = MAX) -> tuple[tuple[Layer, ...], Fallback, QuantPlan]:
    """The layers of an int8 plan, and their fallback with an fp8 plan that lacks the pairs of one tensor."""
    with planned(folder, recipe) as one, planned(folder, replace(recipe, quantize_mode="fp8")) as other:
        index = one.index
        plan = by_reader(one.plan, index)
        layers = layers_of(plan, index)
        kept = QuantPlan(tuple(each for each in by_reader(other.plan, index) if each.slot.tensor != drop))
        finer = SecondaryPlan(name="fp8", digest="0c", plan=kept, bits=BITS)
        costs = costs_of(layers, index)
        found = fallback_of(plan, finer, layers, costs, index)
        expected = dict(zip(layers, fallback_shares(costs, BITS), strict=True))
        assert found.shares == {layer: expected[layer] for layer in found.shares}
        return layers, found, plan


@pytest.mark.parametrize("name", NETWORKS)
def test_units_whose_pairs_both_plans_have_take_the_format(name: str, tmp_path: Path):
    make, shape = NETWORKS[name]
    save(tmp_path, make(), rows(shape))
    layers, found, plan = taking(tmp_path)
    assert set(found.shares) == set(layers)
    assert found.key == "fp8-0c"
    assert sorted(found.placements) == list(range(len(plan)))
    for site, placement in enumerate(plan):
        assert found.placements[site].slot == placement.slot
        assert found.placements[site].params.scheme.format.name == "float8e4m3fn"
        assert placement.params.scheme.format.name == "int8"
    for layer in layers:
        assert list(found.setting(layer)) == list(layer.sites)


def test_a_unit_whose_weight_has_no_such_pair_does_not_take_it(tmp_path: Path):
    save(tmp_path, chain(4), rows())
    layers, found, plan = taking(tmp_path, drop="w2")
    missing = [layer for layer in layers if layer not in found.shares]
    assert [layer.leader.label for layer in missing] == ["m2"]
    assert {site for layer in missing for site in layer.sites} == set(range(len(plan))) - set(found.placements)


def test_a_second_plan_with_more_pairs_for_a_node_is_not_taken_there(tmp_path: Path):
    """A node with more pairs than in the plan could not be switched as a whole."""
    save(tmp_path, chain(3), rows())
    with planned(tmp_path) as one:
        index = one.index
        plan = by_reader(one.plan, index)
        fewer = QuantPlan(tuple(each for each in plan if each.slot.tensor != "r0"))
        layers = layers_of(fewer, index)
        finer = SecondaryPlan(name="fp8", digest="0c", plan=plan, bits=BITS)
        found = fallback_of(fewer, finer, layers, costs_of(layers, index), index)
    assert {layer.leader.label for layer in found.shares} == {"m0", "m2"}


def test_an_empty_plan_is_taken_by_none(tmp_path: Path):
    save(tmp_path, chain(3), rows())
    with planned(tmp_path) as one:
        index = one.index
        plan = by_reader(one.plan, index)
        layers = layers_of(plan, index)
        finer = SecondaryPlan(name="fp8", digest="0c", plan=QuantPlan(()), bits=BITS)
        found = fallback_of(plan, finer, layers, costs_of(layers, index), index)
    assert (found.shares, found.placements) == ({}, {})
