"""Products: pairs on both operands or on none, with the reason."""

from typing import Any

import numpy as np
import onnx
import pytest
from onnx import parser
from support.engine_models import IMAGE, ROWS, Net
from support.placed import proposal

from qdqtool.quantization.planning.placement import Selection


def reasons(model: onnx.ModelProto, number_format: str = "int8", **selection: Any) -> dict[str, tuple[str, str]]:
    found = proposal(model, Selection(**selection), number_format=number_format).skipped
    return {node.node: (node.reason.code, node.reason.text) for node in found}


def pairs(model: onnx.ModelProto, number_format: str = "int8", **selection: Any) -> dict[str, tuple[str, str]]:
    found = proposal(model, Selection(**selection), number_format=number_format).slots
    return {each.slot.tensor: (each.kind, str(each.scheme.granularity)) for each in found}


def product(op: str, left: str, right: str) -> onnx.ModelProto:
    """Of activations ``x`` and ``i``, constants ``c``, ``d`` and ``n``, and what is quantized: ``k``."""
    net = Net(17)
    for name in "cd":
        net.float_weight(name, (32, 32, 1, 1) if op == "Conv" else (32, 32))
    net.constant("n", np.ones((32, 32), np.int32))
    net.op("Transpose", [net.weight("q", (32, 32), axis=0)], "k", perm=[1, 0])
    net.op("Transpose", ["x"], "a", perm=[0, 1, 2, 3] if op == "Conv" else [1, 0])
    net.op(op, [left, right], "y")
    return net.model({"x": (32, 32, 1, 1) if op == "Conv" else (32, 32)})


QUANTIZED = ("quantized-already", "it is quantized already")
MISSING = ("missing-operand", "an operand is missing")


NOT_CONSTANT = "its weight 'a' is not constant; quantizing its input alone would gain nothing"


@pytest.mark.parametrize(
    ("op", "left", "right", "reason"),
    [
        ("MatMul", "x", "", MISSING),
        ("MatMul", "", "c", MISSING),
        ("Conv", "x", "", MISSING),
        ("Conv", "c", "d", ("constant-operand", "all its inputs are constant")),
        ("Conv", "c", "x", ("constant-operand", "its input 'c' is constant")),
        ("Conv", "x", "a", ("no-weight", NOT_CONSTANT)),
        ("Gemm", "c", "d", ("constant-operand", "all its inputs are constant")),
        ("MatMul", "k", "x", QUANTIZED),
        ("MatMul", "x", "n", ("unsupported-type", "'n' is int32; TensorRT 11 quantizes bfloat16, float16, float32")),
    ],
)
def test_a_product_that_cannot_have_two_pairs_has_none(op, left, right, reason):
    model = product(op, left, right)
    assert reasons(model) == {f"y.{op}": reason}
    assert pairs(model) == {}


@pytest.mark.parametrize(
    ("op", "left", "right", "expected"),
    [
        ("MatMul", "x", "c", {"x": ("activation", "per-tensor"), "c": ("weight", "per-axis 1")}),
        ("MatMul", "c", "x", {"c": ("weight", "per-tensor"), "x": ("activation", "per-tensor")}),
        ("MatMul", "x", "a", {"x": ("activation", "per-tensor"), "a": ("activation", "per-tensor")}),
        ("Conv", "x", "c", {"x": ("activation", "per-tensor"), "c": ("weight", "per-axis 0")}),
        ("MatMul", "x", "k", {"x": ("activation", "per-tensor")}),
        ("MatMul", "c", "d", {}),
    ],
)
def test_a_product_has_pairs_on_both_operands_but_stored_codes_and_none_among_constants(op, left, right, expected):
    assert pairs(product(op, left, right)) == expected
    assert reasons(product(op, left, right)) == {}


def test_large_float_kernels_are_quantized_for_those_who_name_them():
    net = Net(17)
    net.op("Conv", ["x", net.float_weight("w", (16, 16, 6, 6))], "y")
    model, fp8 = net.model(IMAGE), "float8e4m3fn"
    code, text = reasons(model, fp8)["y.Conv"]
    assert code == "no-kernel"
    assert text.startswith("its kernel is 6 x 6: ")
    both = {"x": ("activation", "per-tensor"), "w": ("weight", "per-axis 0")}
    assert pairs(model) == both
    assert pairs(model, fp8, op_types_to_quantize=("Conv",)) == both
    assert pairs(model, fp8, nodes_to_quantize=("y.Conv",)) == both
    assert pairs(model, fp8, op_types_to_quantize=("Con*",)) == {}


def test_two_activations_in_a_function_are_no_arguments():
    text = """<ir_version: 8, opset_import: ["": 17, "my": 1]>
    g (float[4,4] x) => (float[4,4] y) { y = my.Layer (x, x) }
    <domain: "my", opset_import: ["": 17]>
    Layer (a, v) => (b) {
        r = Relu (a)
        s = Neg (a)
        [inside] p = MatMul (r, s)
        [argument] b = MatMul (p, v)
    }
    """
    told = "its weight may be an argument of the local function ('v'); inline the function to see"
    model = parser.parse_model(text)
    assert reasons(model) == {"argument": ("function-argument", told)}
    assert pairs(model) == {"r": ("activation", "per-tensor"), "s": ("activation", "per-tensor")}


def test_an_input_of_the_model_may_be_the_right_operand():
    net = Net(17)
    net.op("MatMul", ["x", "z"], "y")
    model = net.model({"x": (32, 32), "z": (32, 32)})
    assert pairs(model) == {"x": ("activation", "per-tensor"), "z": ("activation", "per-tensor")}


def tiny(*, pool: bool = False, second: int = 32) -> onnx.ModelProto:
    net = Net(17)
    net.op("MatMul", ["x", net.float_weight("w", (64, second))], "a")
    net.op("MatMul", ["a", net.float_weight("v", (second, 4))], "b")
    net.op("MatMul", ["a", net.op("Transpose", ["a"], "t", perm=[1, 0])], "c")
    if pool:
        net.op("Reshape", ["x", net.constant("shape", np.array([1, 8, 8, 8]))], "image")
        net.op("GlobalAveragePool", ["image"], "p")
    net.op("Neg", ["b"], "y")
    return net.model(ROWS)


@pytest.mark.parametrize("pool", [False, True])
def test_a_tiny_layer_stays_float_beside_larger_ones_and_what_has_no_weight_does_not_count(pool):
    selection = {"op_types_to_quantize": ("Mat*", "GlobalAveragePool")} if pool else {}
    told = "it has 32 input and 4 output channels, and no kernel gains below 16; to quantize it anyway, give `"
    code, text = reasons(tiny(pool=pool), **selection)["b.MatMul"]
    assert (code, text.partition("--")[0]) == ("few-channels", told)
    found = set(pairs(tiny(pool=pool), **selection))
    assert found == {"x", "w", "a", "t"} | ({"image"} if pool else set())


@pytest.mark.parametrize(
    "selection",
    [
        Selection(nodes_to_exclude=("a.MatMul", "c.MatMul")),
        Selection(float_nodes=frozenset({((), ("a",)), ((), ("c",))})),
    ],
)
def test_a_tiny_layer_stays_float_where_the_larger_ones_are_left_out(selection):
    assert proposal(tiny(), selection).slots == ()
    # A model of tiny layers alone: the others are quantized all the same.
    assert {each.slot.tensor for each in proposal(tiny(second=8), selection).slots} == {"a", "v"}


def test_a_large_layer_without_a_weight_can_be_left_out():
    assert reasons(product("MatMul", "x", ""), nodes_to_exclude=("y",))["y.MatMul"][0] == "excluded"


def test_a_model_of_tiny_layers_is_quantized():
    assert set(pairs(tiny(second=8))) == {"x", "w", "a", "v", "t"}


def test_a_weight_that_cannot_be_computed_has_no_pair():
    """The Reshape does not fit its constant."""
    net = Net(17)
    net.op("Reshape", [net.float_weight("k", (16, 5)), net.constant("wrong", np.array([-1, 3, 1, 1]))], "w")
    net.op("Conv", ["x", "w"], "y")
    model = net.model(IMAGE)
    model.graph.value_info.append(onnx.helper.make_tensor_value_info("w", onnx.TensorProto.FLOAT, None))
    cause = "a shape does not fit, or it has more than 16,777,216 elements"
    text = f"its weight 'w' cannot be computed from its constants: {cause}"
    assert reasons(model) == {"y.Conv": ("weight-not-computed", text)}
    assert pairs(model) == {}


def test_a_weight_that_is_computed_from_constants_has_a_pair():
    net = Net(17)
    net.op("ReduceL2", [net.float_weight("v", (16, 3, 3, 3))], "length", axes=[1, 2, 3])
    net.op("Div", ["v", "length"], "w")
    net.op("Conv", ["x", "w"], "y")
    both = {"x": ("activation", "per-tensor"), "w": ("weight", "per-axis 0")}
    assert pairs(net.model(IMAGE)) == both
