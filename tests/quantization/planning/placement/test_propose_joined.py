"""One scale around a Concat, for those who ask for it: which pairs share it, and that the float copy is gone."""

import itertools

import numpy as np
import onnx
import pytest
from onnx import numpy_helper
from support.engine_models import IMAGE, Net
from support.layer_dump import kernels_of, output_types
from support.placed import place, proposal

from qdqtool.jobs.quantize import QuantizeOptions, quantize_model
from qdqtool.quantization.planning.placement import Selection
from qdqtool.quantization.planning.recipe import Recipe
from qdqtool.samples.request import RandomData

ASKED = Selection(op_types_to_quantize=("*", "Concat"))


def convolved(net, x, y, shape=(16, 16, 3, 3)):
    return net.op(
        "Relu", [net.op("Conv", [x, net.float_weight(f"w_{y}", shape)], f"{y}_c", pads=[shape[-1] // 2] * 4)], y
    )


def skip_connection(*, pool=True):
    """A tensor that a Conv reads, through a MaxPool or not, and that joins what the Conv makes of it."""
    net = Net(17)
    skip = convolved(net, "x", "skip")
    low = net.op("MaxPool", [skip], "low", kernel_shape=[2, 2], strides=[2, 2]) if pool else skip
    deep = convolved(net, low, "deep")
    net.constant("factors", np.array([1, 1, 2, 2], np.float32))
    deep = net.op("Resize", [deep, "", "factors"], "up", mode="nearest") if pool else deep
    net.op("Conv", [net.op("Concat", [deep, skip], "both", axis=1), net.float_weight("w", (16, 32, 1, 1))], "y")
    return net.model(IMAGE)


def groups(model, selection=ASKED, number_format="int8"):
    found = {}
    for slot in proposal(model, selection, number_format=number_format).slots:
        if slot.range_group is not None:
            found.setdefault(slot.range_group, set()).add(slot.slot.tensor)
    return list(found.values())


def test_nothing_is_shared_unasked():
    assert groups(skip_connection(), Selection()) == []


@pytest.mark.parametrize(("pool", "reader"), [(True, "low"), (False, "skip")])
def test_the_pair_behind_shares_the_scale_of_the_pairs_that_inputs_have_already(pool, reader):
    model = skip_connection(pool=pool)
    assert groups(model) == [{reader, "both"}]
    asked, unasked = (proposal(model, selection) for selection in (ASKED, Selection()))
    assert [slot.slot for slot in asked.slots] == [slot.slot for slot in unasked.slots]  # no further pair
    assert "both.Concat" not in {node.node for node in asked.skipped}


def test_a_concat_of_concats_is_one_group():
    net = Net(17)
    parts = [convolved(net, "x", f"p{index}") for index in range(3)]
    convolved(net, parts[0], "other")
    inner = net.op("Concat", parts[:2], "inner", axis=1)
    outer = net.op("Concat", [inner, parts[2], "other"], "outer", axis=1)
    net.op("Conv", [outer, net.float_weight("w", (16, 64, 1, 1))], "y")
    assert groups(net.model(IMAGE)) == [{"p0", "outer"}]


def test_a_concat_that_shares_nothing_says_so():
    net = Net(17)
    both = net.op("Concat", [convolved(net, "x", "a"), convolved(net, "x", "b")], "both", axis=1)
    net.op("Conv", [both, net.float_weight("w", (16, 32, 1, 1))], "y")
    model = net.model(IMAGE)
    assert groups(model) == []
    reasons = {node.node: node.reason.text for node in proposal(model, ASKED).skipped}
    assert reasons["both.Concat"].startswith("no other node reads its inputs quantized")


def product(net, x, y, channels=32):
    return net.op("MatMul", [x, net.float_weight(f"w_{y}", (channels, 32))], y)


def joined(*extra, read=True, **inputs):
    """Concat(a, b) of two tensors that products read too; ``extra`` adds nodes to the network."""
    net = Net(17)
    for name in "ab":
        net.op("Relu", ["x"], name)
        product(net, name, f"m{name}")
    net.op("Concat", [inputs.get("left", "a"), inputs.get("right", "b")], "both", axis=1)
    for add in extra:
        add(net)
    product(net, "both", "y", 64) if read else net.op("Neg", ["both"], "y")
    return net.model({"x": (32, 32)})


def left_alone(model):
    return {node.node for node in proposal(model, ASKED).skipped if node.op_type == "Concat"}


def test_a_concat_whose_result_is_not_quantized_joins_nothing():
    assert groups(joined()) == [{"a", "b", "both"}]
    assert groups(joined(read=False)) == []
    assert left_alone(joined(read=False)) == {"both.Concat"}


def test_a_concat_behind_it_that_joins_nothing_does_not_end_the_search():
    model = joined(lambda net: net.op("Concat", ["a", "b"], "later", axis=0))
    assert groups(model) == [{"a", "b", "both"}]
    assert left_alone(model) == {"later.Concat"}


def test_two_readers_of_one_tensor_share_nothing_without_a_concat():
    net = Net(17)
    product(net, net.op("Transpose", ["x"], "t", perm=[1, 0]), "y")
    product(net, "x", "z")
    net.op("Concat", ["y", "z"], "both", axis=0)
    assert groups(net.model({"x": (32, 32)})) == []


def test_a_weight_in_a_concat_keeps_its_own_scales():
    model = joined(right="w_ma")
    assert groups(model) == [{"a", "both"}]


def test_a_tensor_with_a_fixed_bound_keeps_its_scale():
    model = joined(left="s")
    model.graph.node.insert(0, onnx.helper.make_node("Softmax", ["x"], ["s"]))
    model.graph.node.append(onnx.helper.make_node("MatMul", ["s", "w_ma"], ["ms"]))
    assert groups(model) == [{"s", "b", "both"}]
    assert groups(model, number_format="float8e4m3fn") == [{"b", "both"}]


@pytest.mark.parametrize(("moves", "shared"), [(1, True), (64, True), (65, False)])
def test_a_tensor_that_was_moved_has_the_scale_of_its_source(moves, shared):
    def moved(net):
        names = ["a", *(f"i{number}" for number in range(moves))]
        for before, after in itertools.pairwise(names):
            net.op("Identity", [before], after)
        net.op("Concat", [names[-1], "b"], "other", axis=1)
        product(net, "other", "z", 64)

    model = joined(moved, read=False)
    assert groups(model) == [{"a", "b", "other"} if shared else {"b", "other"}]


def test_two_concats_that_share_no_tensor_are_two_groups():
    def more(net):
        for name in "cd":
            net.op("Relu", ["x"], name)
            product(net, name, f"m{name}")
        net.op("Concat", ["c", "d"], "pair", axis=1)
        product(net, "pair", "z", 64)

    assert groups(joined(more)) == [{"a", "b", "both"}, {"c", "d", "pair"}]
    apart = joined(more, lambda net: product(net, net.op("Concat", ["d", "a"], "bridge", axis=1), "u", 64))
    assert groups(apart) == [{"a", "b", "both", "c", "d", "pair", "bridge"}]


def test_quantize_writes_the_largest_scale_of_the_group(tmp_path):
    onnx.save(skip_connection(), tmp_path / "m.onnx")

    def scales(selection):
        options = QuantizeOptions(recipe=Recipe(selection=selection))
        quantize_model(tmp_path / "m.onnx", RandomData(samples=2), tmp_path / "q.onnx", options)
        graph = onnx.load(tmp_path / "q.onnx").graph
        constants = {tensor.name: numpy_helper.to_array(tensor) for tensor in graph.initializer}
        pairs = [node for node in graph.node if node.op_type == "QuantizeLinear"]
        return {node.input[0]: float(constants[node.input[1]]) for node in pairs}

    apart, together = scales(Selection()), scales(ASKED)
    assert apart["low"] != apart["both"]
    assert together == {**apart, **dict.fromkeys(["low", "both"], max(apart["low"], apart["both"]))}


@pytest.mark.builder
def test_the_float_copy_of_the_skip_tensor_is_gone(oracle, tmp_path):
    model = place(skip_connection(), tmp_path)
    layers = oracle.judge(model).layers
    (scale,) = {
        node.input[1] for node in model.graph.node if node.op_type == "QuantizeLinear" and node.input[0] == "low"
    }
    (tensor,) = (tensor for tensor in model.graph.initializer if tensor.name == scale)
    tensor.CopyFrom(numpy_helper.from_array(numpy_helper.to_array(tensor) * np.float32(0.5), scale))
    apart = oracle.judge(model).layers
    written, copied = (
        [output_types(one) for one in kernels_of(each, "skip.Relu", "LayerType")] for each in (layers, apart)
    )
    assert written == [["Int8"]]
    assert [sorted(types) for types in copied] == [["Float", "Int8"]]
