"""Engines whose times can be compared: layers that belong together, ratios of times, and the verdict on them."""

import itertools

import numpy as np
import pytest
from support.fake_runner import FakeRunner

from qdqtool.engines.gpu.clocks import Clocks
from qdqtool.engines.gpu.comparison import (
    clock_warning,
    compare_layers,
    judge,
    require_comparable,
    require_order,
    speedup_of,
)
from qdqtool.engines.gpu.runner import LayerTime
from qdqtool.engines.gpu.speedup_gate import SpeedupGate
from qdqtool.engines.gpu.timing import MeasuredEngine
from qdqtool.errors import UsageError
from qdqtool.samples.signature import InputSpec

HALF = (InputSpec("x", np.dtype(np.float16), (1, 3)),)
OTHER = (InputSpec("z", np.dtype(np.float32), (1, 3)),)
FLAT = (InputSpec("x", np.dtype(np.float32), (3,)),)


@pytest.mark.parametrize("other", [FakeRunner(), FakeRunner(inputs=HALF)])
def test_another_float_type_does_not_matter(other):
    require_comparable(FakeRunner(), other)


@pytest.mark.parametrize(
    ("other", "says"),
    [
        (FakeRunner(inputs=OTHER), r"different inputs: x \(rank 2\) against z \(rank 2\)"),
        (FakeRunner(inputs=FLAT), r"different inputs: x \(rank 2\) against x \(rank 1\)"),
        (FakeRunner(outputs=("y", "z")), "different outputs: y against y, z"),
        (FakeRunner(clock="host"), "only the times of the ONNX model include copies"),
    ],
)
def test_other_networks_and_clocks_are_refused(other, says):
    with pytest.raises(UsageError, match=says):
        require_comparable(FakeRunner(), other)


@pytest.mark.parametrize(
    ("mine", "theirs"),
    [(None, None), (None, {"int8": 3}), ({"int8": 3}, {}), ({"int8": 3}, {"int8": 2}), ({}, {}), ({}, None)],
)
def test_any_order_but_the_reverse_will_do(mine, theirs):
    require_order(mine, theirs)


def test_a_float_engine_in_the_place_of_the_quantized_one_is_refused():
    with pytest.raises(UsageError, match="the order is wrong"):
        require_order({}, {"int8": 3})


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


def test_the_speedup_is_the_ratio_of_the_medians():
    fast, slow = np.random.default_rng(0).gamma(9.0, 0.1, (2, 5, 21))
    found = speedup_of(MeasuredEngine(fast.tolist()), MeasuredEngine((3 * slow).tolist()))
    assert found.ratio == pytest.approx(np.median(3 * slow) / np.median(fast))
    rounds = np.median(3 * slow, axis=1) / np.median(fast, axis=1)
    assert (found.lowest, found.highest) == pytest.approx((rounds.min(), rounds.max()))


def test_a_slower_engine_has_a_speedup_below_1():
    assert speedup_of(MeasuredEngine([[2.0]]), MeasuredEngine([[1.0]])).ratio == 0.5


@pytest.mark.parametrize(("limit", "passed"), [(1.9, True), (2.0, True), (2.01, False)])
def test_the_gate_asks_for_at_least_its_ratio(limit, passed):
    comparison = compare_layers(
        [LayerTime("a", (), 1.0), LayerTime("b", (), 1.0)], [LayerTime("a", (), 2.0), LayerTime("b", (), 0.5)]
    )
    result = judge(SpeedupGate(limit), speedup_of(MeasuredEngine([[1.0]]), MeasuredEngine([[2.0]])), comparison)
    assert (result.passed, result.found) == (passed, "2.000x")
    assert [group.layers for group in result.slower_layers] == ([] if passed else [("b",)])


def test_a_gate_is_judged_where_layers_are_not_known():
    result = judge(SpeedupGate(3), speedup_of(MeasuredEngine([[1.0]]), MeasuredEngine([[2.0]])), None)
    assert not result.passed
    assert result.slower_layers == ()


@pytest.mark.parametrize(
    ("clocks", "warns"),
    [
        (((1000, 1000), (1040, 1050)), False),
        (((1000, 1000), (1060, 1070)), True),
        (((1100, 1000, 1000), (1000, 1000)), False),
        (((1000,), ()), False),
        (((1000,),), False),
    ],
)
def test_clocks_that_differ_are_told(clocks, warns):
    measured = [MeasuredEngine([[1.0]], [Clocks(sm, 5000) for sm in each]) for each in clocks]
    assert (clock_warning(measured) is not None) == warns
