"""Residual Adds: the pair on the skip branch, and every reason why an Add gets none."""

import numpy as np
import pytest
from onnx import TensorProto, helper, numpy_helper
from support.engine_models import Net
from support.placed import proposal

from qdqtool.quantization.planning.placement import Selection

IMAGE = {"x": (1, 16, 8, 8), "s": (1, 16, 8, 8)}
ORDERS = pytest.mark.parametrize("swapped", [False, True])
FLOAT_CONV = "the Conv that it joins stays float"
NO_CONV = "neither input comes straight from a Conv that nothing else reads: there is nothing to fuse with"
LAYERS = "it sums up layers without a Conv: such sums grow with depth, and one scale for them costs accuracy"
OTHER_SHAPE = "its inputs have different shapes: it is no residual branch"
QUANTIZED = "it is quantized already"
CONV_QUANTIZED = "the Conv that it joins is quantized already; `--existing replace` quantizes both anew"


def conv(net, source, output):
    return net.op("Conv", [source, net.float_weight(f"{output}_w", (16, 16, 1, 1))], output)


def add(net, left, right, *, swapped, output="a"):
    return net.op("Add", [right, left] if swapped else [left, right], output)


def decision(model, **selection):
    """The tensor of the pair on an input of Add ``a``, the reason why there is none, or None for no residual Add."""
    found = proposal(model, Selection(**selection))
    reasons = [node.reason.text for node in found.skipped if node.node == "a.Add"]
    pairs = [slot.slot.tensor for slot in found.slots for use in slot.slot.uses if use.node == ("a",)]
    assert len(reasons) + len(pairs) <= 1
    return (reasons + pairs or [None])[0]


@ORDERS
def test_a_bias_is_no_branch(swapped):
    net = Net(17)
    add(net, conv(net, "x", "c"), net.float_weight("b", (16, 1, 1)), swapped=swapped)
    assert decision(net.model(IMAGE, "a")) is None


@ORDERS
def test_a_missing_operand_is_named(swapped):
    net = Net(17)
    add(net, conv(net, "x", "c"), "", swapped=swapped)
    assert decision(net.model(IMAGE, "a")) == "an operand is missing"


@ORDERS
def test_a_graph_input_is_a_skip_branch(swapped):
    net = Net(17)
    add(net, conv(net, "x", "c"), "s", swapped=swapped)
    assert decision(net.model(IMAGE, "a")) == "s"


OPEN = {"x": ("n", 16, "h", "w"), "s": ("n", 16, "h2", "w2")}


@ORDERS
def test_extents_that_are_open_may_be_the_same(swapped):
    """Shape inference names the extents behind every Conv anew, so those of the two inputs differ."""
    net = Net(17)
    add(net, conv(net, "x", "c"), "x", swapped=swapped)
    assert decision(net.model(OPEN, "a")) == "x"


@ORDERS
@pytest.mark.parametrize("shape", [(1, 16, 1, 1), ("n", 16, 1, 1), (1, 16, 8, 4), (16, 8, 8), ("n", 1, "h", "w")])
def test_an_input_that_is_broadcast_is_no_branch(swapped, shape):
    net = Net(17)
    add(net, conv(net, "x", "c"), "s", swapped=swapped)
    assert decision(net.model(IMAGE | {"s": shape}, "a")) == OTHER_SHAPE


@ORDERS
def test_inputs_of_the_model_alone_are_nothing_to_fuse(swapped):
    net = Net(17)
    add(net, "x", "s", swapped=swapped)
    assert decision(net.model(IMAGE, "a")) == NO_CONV


@ORDERS
def test_a_conv_that_is_an_output_is_not_fused(swapped):
    net = Net(17)
    add(net, conv(net, "x", "c"), "s", swapped=swapped)
    model = net.model(IMAGE, "a")
    assert decision(model) == "s"
    model.graph.output.append(helper.make_tensor_value_info("c", TensorProto.FLOAT, (1, 16, 8, 8)))
    assert decision(model) == NO_CONV


@ORDERS
def test_an_unknown_shape_is_no_other_shape(swapped):
    net = Net(17)
    add(net, conv(net, "x", "c"), "s", swapped=swapped)
    model = net.model(IMAGE, "a")
    model.graph.input[1].type.tensor_type.ClearField("shape")
    assert decision(model) == "s"


@ORDERS
def test_a_branch_with_a_mask_gets_no_pair(swapped):
    net = Net(17)
    net.constant("low", np.full((8, 8), -1e4, np.float32))
    net.op("Clip", [net.op("Add", ["s", "low"], "m")], "k")
    add(net, conv(net, "x", "c"), "k", swapped=swapped)
    assert decision(net.model(IMAGE, "a")) == "'k' carries an attention mask, which one scale would not survive"


@ORDERS
def test_a_branch_with_a_pair_gets_no_other(swapped):
    net = Net(17)
    add(net, conv(net, "x", "c"), net.activation("s"), swapped=swapped)
    assert decision(net.model(IMAGE, "a")) == QUANTIZED


@ORDERS
@pytest.mark.parametrize("skip_too", [False, True])
def test_a_quantized_conv_says_whether_the_skip_branch_is_quantized_too(skip_too, swapped):
    net = Net(17)
    net.op("Conv", [net.activation("x"), net.weight("w", (16, 16, 1, 1), axis=0)], "c")
    add(net, "c", net.activation("s") if skip_too else "s", swapped=swapped)
    assert decision(net.model(IMAGE, "a")) == (QUANTIZED if skip_too else CONV_QUANTIZED)


@ORDERS
@pytest.mark.parametrize("axis", [0, 1])
def test_a_conv_with_a_quantized_weight_alone_is_quantized_where_its_kernel_takes_the_codes(axis, swapped):
    net = Net(17)
    net.op("Conv", ["x", net.weight("w", (16, 16, 1, 1), axis=axis)], "c")
    add(net, "c", "s", swapped=swapped)
    assert decision(net.model(IMAGE, "a")) == ("s" if axis == 0 else FLOAT_CONV)


@ORDERS
def test_a_conv_without_data_stays_float(swapped):
    net = Net(17)
    net.op("Conv", ["", net.float_weight("w", (16, 16, 1, 1))], "c")
    add(net, "c", "s", swapped=swapped)
    assert decision(net.model(IMAGE, "a")) == FLOAT_CONV


@ORDERS
def test_an_excluded_conv_of_a_graph_input_stays_float(swapped):
    net = Net(17)
    add(net, conv(net, "x", "c"), "s", swapped=swapped)
    assert decision(net.model(IMAGE, "a"), nodes_to_exclude=("c",)) == FLOAT_CONV


@ORDERS
@pytest.mark.parametrize("also", [[], ["c"], ["e"], ["c", "e"]])
def test_of_two_convs_one_may_stay_float(also, swapped):
    net = Net(17)
    net.op("Relu", [conv(net, "x", "b")], "r")
    add(net, conv(net, "r", "c"), conv(net, "s", "e"), swapped=swapped)
    expected = {(): "e", ("c",): "c", ("e",): "e", ("c", "e"): FLOAT_CONV}[tuple(also)]
    assert decision(net.model(IMAGE, "a"), nodes_to_exclude=tuple(also)) == expected


@ORDERS
@pytest.mark.parametrize("operators", [0, 3])
def test_depth_counts_products_and_not_other_operators(operators, swapped):
    """The shallow branch may have more operators in front of its Conv."""
    net = Net(17)
    shallow = "s"
    for number in range(operators):
        shallow = net.op("Sigmoid", [shallow], f"n{number}")
    net.op("Relu", [conv(net, "x", "b")], "r")
    add(net, conv(net, "r", "deep"), conv(net, shallow, "flat"), swapped=swapped)
    assert decision(net.model(IMAGE, "a")) == "flat"


def test_integers_are_no_question():
    net = Net(17)
    net.op("Add", ["i", "j"], "a")
    model = net.model(IMAGE, "a")
    for name in "ij":
        model.graph.input.append(helper.make_tensor_value_info(name, TensorProto.INT64, (1, 16, 8, 8)))
    assert decision(model) is None


def test_an_add_of_mixed_types_is_left_to_the_checker():
    net = Net(17)
    net.op("Add", ["x", "i"], "a")
    model = net.model(IMAGE, "a")
    model.graph.input.append(helper.make_tensor_value_info("i", TensorProto.INT64, (1, 16, 8, 8)))
    assert decision(model) is None


@ORDERS
def test_a_weight_of_a_constant_node_adds_no_depth(swapped):
    net = Net(17)
    weight = numpy_helper.from_array(np.ones((16, 16, 1, 1), np.float32), "value")
    net.op("Constant", [], "w", value=weight)
    net.op("Relu", [conv(net, "x", "b")], "r")
    add(net, conv(net, "r", "deep"), net.op("Conv", ["s", "w"], "flat"), swapped=swapped)
    assert decision(net.model(IMAGE, "a")) == "flat"


@ORDERS
@pytest.mark.parametrize("behind", ["product", "bias", "other bias", "activation"])
def test_the_sum_of_layers_is_told_from_other_sums(behind, swapped):
    net = Net(17)
    net.op("MatMul", ["p", net.float_weight("w", (64, 64))], "m")
    if behind == "bias":
        net.op("Add", ["m", net.float_weight("b", (64,))], "n")
    elif behind == "other bias":
        net.op("Add", [net.float_weight("b", (64,)), "m"], "n")
    elif behind == "activation":
        net.op("Sigmoid", ["m"], "n")
    add(net, "m" if behind == "product" else "n", "p", swapped=swapped)
    found = decision(net.model({"p": (4, 64)}, "a"))
    assert found == (NO_CONV if behind == "activation" else LAYERS)
