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
NO_CONV = "neither input comes directly from a Conv that only this node reads: it cannot be fused with a Conv"
LAYERS = "it sums up layers without a Conv: such sums grow with depth, and one scale for them costs accuracy"
OTHER_SHAPE = "its inputs have different shapes: it is no residual branch"
QUANTIZED = "it is quantized already"
CONV_QUANTIZED = "the Conv that it joins is quantized already; `--existing replace` quantizes both again"


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


def float_conv(net):
    return conv(net, "x", "c")


def quantized_conv(net, data=None, axis=0):
    return net.op("Conv", [data or net.activation("x"), net.weight("w", (16, 16, 1, 1), axis=axis)], "c")


def masked(net):
    net.constant("low", np.full((8, 8), -1e4, np.float32))
    return net.op("Clip", [net.op("Add", ["s", "low"], "m")], "k")


def conv_read_twice(net):
    net.op("Relu", [float_conv(net)], "also")
    return "c"


BRANCHES = {
    "bias": (float_conv, lambda net: net.float_weight("b", (16, 1, 1)), None),
    "missing operand": (float_conv, lambda _: "", "an operand is missing"),
    "graph input": (float_conv, lambda _: "s", "s"),
    "inputs alone": (lambda _: "x", lambda _: "s", NO_CONV),
    "Sigmoid behind a Conv": (lambda net: net.op("Sigmoid", [float_conv(net)], "n"), lambda _: "s", NO_CONV),
    "Conv read twice": (conv_read_twice, lambda _: "s", NO_CONV),
    "mask": (float_conv, masked, "'k' has an attention mask, and one scale would round its other values to 0"),
    "pair": (float_conv, lambda net: net.activation("s"), QUANTIZED),
    "quantized Conv": (quantized_conv, lambda _: "s", CONV_QUANTIZED),
    "quantized Conv and pair": (quantized_conv, lambda net: net.activation("s"), QUANTIZED),
    "quantized weight": (lambda net: quantized_conv(net, "x"), lambda _: "s", "s"),
    "quantized weight of no kernel": (lambda net: quantized_conv(net, "x", 1), lambda _: "s", FLOAT_CONV),
    "Conv without data": (lambda net: conv(net, "", "c"), lambda _: "s", FLOAT_CONV),
}


@ORDERS
@pytest.mark.parametrize("name", BRANCHES)
def test_what_a_conv_is_added_to(name, swapped):
    left, right, expected = BRANCHES[name]
    net = Net(17)
    add(net, left(net), right(net), swapped=swapped)
    assert decision(net.model(IMAGE, "a")) == expected


OPEN = {"x": ("n", 16, "h", "w"), "s": ("n", 16, "h2", "w2")}


BROADCAST = [(1, 16, 1, 1), ("n", 16, 1, 1), (1, 16, 8, 4), (16, 8, 8), ("n", 1, "h", "w")]


@ORDERS
@pytest.mark.parametrize(
    ("inputs", "other", "expected"),
    [(OPEN, "x", "x"), *((IMAGE | {"s": shape}, "s", OTHER_SHAPE) for shape in BROADCAST)],
)
def test_an_input_that_is_broadcast_is_no_branch_and_open_extents_may_be_the_same(swapped, inputs, other, expected):
    """Shape inference names the extents behind every Conv anew, so open ones of the two inputs differ."""
    net = Net(17)
    add(net, conv(net, "x", "c"), other, swapped=swapped)
    assert decision(net.model(inputs, "a")) == expected


@ORDERS
def test_a_conv_that_is_excluded_or_an_output_is_not_fused(swapped):
    net = Net(17)
    add(net, conv(net, "x", "c"), "s", swapped=swapped)
    model = net.model(IMAGE, "a")
    assert decision(model, nodes_to_exclude=("c",)) == FLOAT_CONV
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


@pytest.mark.parametrize("left", ["i", "x"])
def test_integers_are_no_question_and_mixed_types_are_left_to_the_checker(left):
    net = Net(17)
    net.op("Add", [left, "j"], "a")
    model = net.model(IMAGE, "a")
    for name in "ij":
        model.graph.input.append(helper.make_tensor_value_info(name, TensorProto.INT64, (1, 16, 8, 8)))
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
