"""Which layers of two engines belong together."""

import itertools

import pytest

from qdqtool.engines.gpu.comparison import compare_layers
from qdqtool.engines.gpu.runner import LayerTime

INT8 = (
    LayerTime("quantize", ("x_Q",), 0.1),
    LayerTime("stem", ("stem", "x_DQ"), 0.2),
    LayerTime("stem relu", ("stem", "relu", "y_Q"), 0.3),
    LayerTime("block", ("block", "y_DQ"), 0.5),
    LayerTime("block add", ("block", "add", "y_DQ"), 0.25),
    LayerTime("head", (), 0.5),
)
FLOAT = (
    LayerTime("move", (), 0.05),
    LayerTime("stem and relu", ("stem", "relu"), 1.0),
    LayerTime("block1", ("block",), 0.25),
    LayerTime("add", ("add",), 0.25),
    LayerTime("head", (), 0.5),
)


def test_layers_that_share_nodes_are_one_group_and_the_worst_is_first():
    found = compare_layers(INT8, FLOAT)
    assert [(group.nodes, group.layers, group.against_layers) for group in found.groups] == [
        (("block", "add"), ("block", "block add"), ("block1", "add")),
        ((), ("head",), ("head",)),
        (("stem", "relu"), ("stem", "stem relu"), ("stem and relu",)),
    ]
    assert [group.loss for group in found.groups] == pytest.approx([0.25, 0, -0.5])
    assert [group.nodes for group in found.slower] == [("block", "add")]


def test_a_dq_that_two_layers_read_does_not_join_them():
    # y_DQ stands in front of block and of block add; here they share nothing else
    mine = (LayerTime("a", ("a", "y_DQ"), 1.0), LayerTime("b", ("b", "y_DQ"), 2.0))
    theirs = (LayerTime("a", ("a",), 1.0), LayerTime("b", ("b",), 1.0))
    assert len(compare_layers(mine, theirs).groups) == 2


def test_what_has_no_counterpart_is_kept_apart():
    found = compare_layers(INT8, FLOAT)
    assert [layer.name for layer in found.unmatched] == ["quantize"]
    assert [layer.name for layer in found.against_unmatched] == ["move"]


def test_every_layer_is_counted_once_in_any_order():
    total = sum(layer.milliseconds for layer in INT8)
    for order in itertools.islice(itertools.permutations(INT8), 0, 720, 37):
        found = compare_layers(order, FLOAT)
        seen = [*itertools.chain.from_iterable(group.layers for group in found.groups)]
        seen += [layer.name for layer in found.unmatched]
        assert sorted(seen) == sorted(layer.name for layer in INT8)
        times = [*(group.milliseconds for group in found.groups), *(layer.milliseconds for layer in found.unmatched)]
        assert sum(times) == pytest.approx(total)
        assert {frozenset(group.nodes) for group in found.groups} == {
            *map(frozenset, (("block", "add"), ("stem", "relu"), ()))
        }


def test_a_node_called_like_a_layer_is_no_layer():
    found = compare_layers([LayerTime("a", (), 1.0)], [LayerTime("b", ("a",), 1.0)])
    assert found.groups == ()


def test_engines_of_other_models_have_nothing_in_common():
    found = compare_layers([LayerTime("a", ("n",), 1.0)], [LayerTime("b", ("m",), 1.0)])
    assert (found.groups, found.slower) == ((), ())
