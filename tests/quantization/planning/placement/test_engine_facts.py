"""Facts that placement rests on, as TensorRT for RTX 1.7 shows them in its layer dump.

Each says why a pair stands where it does, or why an operator stays float. When a later version behaves otherwise, the
test fails, and the operator's module and docs/explanation/placement.md are what to change.
"""

import numpy as np
import pytest
from onnx import TensorProto, helper
from support.engine_models import FP8, IMAGE, INT8, Net
from support.layer_dump import input_types, kernels_of, multiplied_types, output_types
from support.placed import place, proposal
from support.trt_verdict import TrtOracle

from qdqtool.quantization.planning.placement import Selection

pytestmark = pytest.mark.builder

CODES = {"int8": "Int8", "float8e4m3fn": "FP8"}
KINDS = {"int8": INT8, "float8e4m3fn": FP8}
FUSED_ATTENTION = r"_gemm_mha"
BOTH = pytest.mark.parametrize("number_format", CODES)


@pytest.fixture(scope="module")
def oracle():
    judge = TrtOracle()
    yield judge
    judge.close()


@pytest.fixture
def build(oracle, tmp_path):
    """Place, build, and return the layer dump."""

    def run(model, number_format="int8", **selection):
        placed = place(model, tmp_path, Selection(**selection), number_format)
        verdict = oracle.judge(placed, (89,))
        assert verdict.accepted, verdict.message
        return verdict.layers

    return run


def one_kernel(layers, node, wanted=r"LayerType"):
    """The only kernel of a wanted kind that names ``node``."""
    (kernel,) = kernels_of(layers, node, wanted)
    return kernel


def convolved(net, x, y, shape=(16, 16, 3, 3)):
    return net.op("Conv", [x, net.float_weight(f"w_{y}", shape)], y, pads=[shape[-1] // 2] * 4)


def activated(net, x, op):
    if op == "SiLU":
        return net.op("Mul", [x, net.op("Sigmoid", [x], "gate")], "act")
    return net.op(op, [x], "act", **({"approximate": "tanh"} if op == "Gelu" else {}))


@BOTH
@pytest.mark.parametrize("op", ["Relu", "HardSwish", "SiLU", "Gelu"])
def test_the_kernel_of_an_activation_function_writes_the_codes(op, number_format, build):
    net = Net(20)
    convolved(net, activated(net, convolved(net, "x", "c"), op), "y")
    layers = build(net.model(IMAGE), number_format)
    name = "act.Mul" if op == "SiLU" else f"act.{op}"
    assert output_types(one_kernel(layers, name)) == [CODES[number_format]]


@BOTH
def test_the_q_behind_a_concat_is_moved_onto_its_inputs(number_format, build):
    net = Net(17)
    parts = [net.op("Relu", [convolved(net, "x", f"c{index}")], f"r{index}") for index in (0, 1)]
    convolved(net, net.op("Concat", parts, "k", axis=1), "y", (8, 32, 1, 1))
    model = net.model(IMAGE)
    assert "k.Concat" in {node.node for node in proposal(model).skipped}
    layers = build(model, number_format)
    assert output_types(one_kernel(layers, "k.Concat")) == [CODES[number_format]]
    assert one_kernel(layers, "r0.Relu") == one_kernel(layers, "k.Concat")


def pooled(op, **attributes):
    net = Net(17)
    net.op(op, [net.op("Relu", [convolved(net, "x", "c")], "r")], "p", **attributes)
    convolved(net, "p", "y", (16, 16, 1, 1))
    return net.model(IMAGE)


WINDOW = {"kernel_shape": [2, 2], "strides": [2, 2]}


def test_a_maxpool_in_front_of_a_pair_moves_int8_codes(build):
    assert input_types(one_kernel(build(pooled("MaxPool", **WINDOW)), "p.MaxPool")) == ["Int8"]


def test_a_maxpool_has_no_fp8_kernel(build):
    kernel = one_kernel(build(pooled("MaxPool", **WINDOW), "float8e4m3fn"), "p.MaxPool")
    assert input_types(kernel) == ["Float"]


@BOTH
@pytest.mark.parametrize("asked", [False, True])
@pytest.mark.parametrize(("op", "attributes"), [("AveragePool", WINDOW), ("GlobalAveragePool", {})])
def test_averages_read_float_with_and_without_a_pair(op, attributes, asked, number_format, build):
    selection = {"op_types_to_quantize": ("Conv", op)} if asked else {}
    kernel = one_kernel(build(pooled(op, **attributes), number_format, **selection), f"p.{op}")
    assert set(input_types(kernel)) == {"Float"}


@BOTH
@pytest.mark.parametrize("axis", [None, 0, 1])
def test_a_conv_transpose_runs_in_float_whatever_the_axis_of_its_scales(axis, number_format, oracle):
    kind = KINDS[number_format]
    net = Net()
    net.op("ConvTranspose", [net.activation("x", kind), net.weight("w", (16, 16, 2, 2), kind, axis)], "y")
    layers = oracle.judge(net.model(IMAGE), (89,)).layers
    assert multiplied_types(layers, "y.ConvTranspose") == {"Float"}


@pytest.mark.parametrize(("kernel", "codes"), [((4, 8), "FP8"), ((5, 7), "Float"), ((1, 33), "Float")])
def test_fp8_convolutions_end_at_kernels_of_32_elements(kernel, codes, build):
    net = Net(17)
    net.op("Conv", ["x", net.float_weight("w", (16, 16, *kernel))], "y")
    model = net.model({"x": (1, 16, 40, 40)})
    left = [node.node for node in proposal(model, number_format="float8e4m3fn").skipped]
    assert left == (["y.Conv"] if codes == "Float" else [])
    layers = build(model, "float8e4m3fn", op_types_to_quantize=("Conv",))
    assert multiplied_types(layers, "y.Conv") == {codes}


def test_int8_convolutions_have_kernels_of_any_size(build):
    net = Net(17)
    net.op("Conv", ["x", net.float_weight("w", (16, 3, 16, 16))], "y", strides=[16, 16])
    assert multiplied_types(build(net.model({"x": (1, 3, 32, 32)})), "y.Conv") == {"Int8"}


@BOTH
@pytest.mark.parametrize("side", ["activation", "weight"])
def test_a_pair_on_one_side_leaves_the_product_in_float(side, number_format, oracle):
    kind = KINDS[number_format]
    net = Net()
    x = net.activation("x", kind) if side == "activation" else "x"
    w = net.weight("w", (16, 16, 3, 3), kind, 0) if side == "weight" else net.float_weight("w", (16, 16, 3, 3))
    net.op("Conv", [x, w], "y")
    assert multiplied_types(oracle.judge(net.model(IMAGE), (89,)).layers, "y.Conv") == {"Float"}


@BOTH
def test_an_einsum_with_two_axes_of_output_channels_wants_one_scale(number_format, oracle):
    kind = KINDS[number_format]
    for axis, codes in ((None, CODES[number_format]), (1, "Float"), (2, "Float")):
        net = Net()
        net.op(
            "Einsum", [net.activation("x", kind), net.weight("w", (64, 4, 16), kind, axis)], "y", equation="ij,jhk->ihk"
        )
        layers = oracle.judge(net.model({"x": (8, 64)}), (89,)).layers
        assert multiplied_types(layers, "y.Einsum") == {codes}


@BOTH
@pytest.mark.parametrize(("op", "gates"), [("LSTM", 4), ("GRU", 3)])
def test_the_steps_of_a_recurrent_layer_are_float_even_with_pairs_on_everything(op, gates, number_format, oracle):
    kind, codes = KINDS[number_format], CODES[number_format]
    net = Net()
    weights = [net.weight("w", (1, gates * 32, 16), kind, 1), net.weight("r", (1, gates * 32, 32), kind, 1)]
    net.op(op, [net.activation("x", kind), *weights], "y", hidden_size=32)
    lines = oracle.judge(net.model({"x": (5, 2, 16)}), (89,)).layers.splitlines()
    products = [line for line in lines if "LayerType: gemm" in line or "LayerType: runtime_fusion" in line]
    reading_codes = [line for line in products if codes in input_types(line)]
    assert len(reading_codes) == 1  # the inputs of all steps at once
    assert len(products) > 5  # one for each step at least


def attention_operator(number_format):
    kind = KINDS[number_format]
    net = Net(23)
    read = []
    for name in "qkv":
        net.constant(f"{name}_s", np.float16(0.01))
        net.initializers.append(helper.make_tensor(f"{name}_z", kind, (), bytes(1), raw=True))
        net.op("QuantizeLinear", [name, f"{name}_s", f"{name}_z"], f"{name}_q")
        read.append(net.op("DequantizeLinear", [f"{name}_q", f"{name}_s", f"{name}_z"], f"{name}_d"))
    net.op("Attention", read, "y")
    model = net.model(dict.fromkeys("qkv", (1, 4, 64, 64)), output_type=TensorProto.FLOAT16)
    for each in model.graph.input:
        each.type.tensor_type.elem_type = TensorProto.FLOAT16
    return model


@BOTH
def test_the_attention_operator_runs_in_half_precision_behind_pairs(number_format, oracle):
    layers = oracle.judge(attention_operator(number_format), (89,)).layers
    assert set(input_types(one_kernel(layers, "y.Attention", FUSED_ATTENTION))) == {"Half"}


def attention(head, tokens=64):
    """One layer with its projections."""
    width = 2 * head
    net = Net(17)
    net.constant("heads", np.array([1, tokens, 2, head]))
    net.constant("width", np.array([1, tokens, width]))
    for name, perm in (("q", [0, 2, 1, 3]), ("k", [0, 2, 3, 1]), ("v", [0, 2, 1, 3])):
        rows = net.op("MatMul", ["x", net.float_weight(f"w{name}", (width, width))], f"{name}m")
        net.op("Transpose", [net.op("Reshape", [rows, "heads"], f"{name}r")], name, perm=perm)
    weights = net.op("Softmax", [net.op("MatMul", ["q", "k"], "scores")], "weights", axis=-1)
    mixed = net.op("Transpose", [net.op("MatMul", [weights, "v"], "mixed")], "back", perm=[0, 2, 1, 3])
    net.op("MatMul", [net.op("Reshape", [mixed, "width"], "joined"), net.float_weight("wo", (width, width))], "y")
    return net.model({"x": (1, tokens, width)})


@BOTH
def test_attention_is_fused_only_when_its_result_is_quantized_too(number_format, build):
    layers = build(attention(64), number_format, nodes_to_exclude=("y.MatMul",))
    assert kernels_of(layers, "scores.MatMul", FUSED_ATTENTION) == []
    for node in ("scores.MatMul", "mixed.MatMul"):
        assert multiplied_types(layers, node) == {CODES[number_format]}


@pytest.mark.slow(reason="builds several engines")
@pytest.mark.parametrize(
    ("number_format", "head", "tokens", "is_fused"),
    [
        ("int8", 16, 64, True),
        ("int8", 48, 64, False),
        ("int8", 128, 64, False),
        ("float8e4m3fn", 48, 64, True),
        ("float8e4m3fn", 256, 64, True),
        ("float8e4m3fn", 512, 64, False),
        ("float8e4m3fn", 64, 32, True),
        ("float8e4m3fn", 64, 31, False),
    ],
)
def test_what_is_not_fused_multiplies_codes_all_the_same(number_format, head, tokens, is_fused, build):
    layers = build(attention(head, tokens=tokens), number_format)
    assert bool(kernels_of(layers, "scores.MatMul", FUSED_ATTENTION)) == is_fused
    for node in ("scores.MatMul", "mixed.MatMul"):
        assert multiplied_types(layers, node) == {CODES[number_format]}


def cut_projection(cut, kind, *, pair_in_front):
    """Attention of four heads whose queries, keys and values are parts of one product; a pair on each operand."""
    net = Net(20)
    net.op("MatMul", [net.activation("x", kind), net.weight("w", (64, 192), kind, 1)], "all")
    net.op("Add", ["all", net.float_weight("bias", (192,))], "sum")
    whole = net.activation("sum", kind) if pair_in_front else "sum"
    parts = ["q", "k", "v"]
    if cut == "last axis":
        net.nodes.append(helper.make_node("Split", [whole], parts, name="cut", axis=-1, num_outputs=3))
        heads = net.constant("heads", np.array([1, 32, 4, 16]))
        operands = [net.op("Reshape", [part, heads], f"{part}h") for part in parts]
        operands = [net.op("Transpose", [part], f"{part}t", perm=[0, 2, 1, 3]) for part in operands]
    else:
        net.op("Reshape", [whole, net.constant("heads", np.array([1, 32, 3, 4, 16]))], "three")
        net.op("Transpose", ["three"], "first", perm=[2, 0, 3, 1, 4])
        net.nodes.append(helper.make_node("Split", ["first"], parts, name="cut", axis=0, num_outputs=3))
        axis = net.constant("axis", np.array([0]))
        operands = [net.op("Squeeze", [part, axis], f"{part}s") for part in parts]
    q, k, v = operands
    kt = net.op("Transpose", [k], "kt", perm=[0, 1, 3, 2])
    net.op("MatMul", [net.activation(q, kind), net.activation(kt, kind)], "scores")
    net.op("Softmax", ["scores"], "weights", axis=-1)
    net.op("MatMul", [net.activation("weights", kind), net.activation(v, kind)], "mixed")
    net.op("Transpose", [net.activation("mixed", kind)], "y", perm=[0, 2, 1, 3])
    return net.model({"x": (1, 32, 64)})


@pytest.mark.slow(reason="builds an engine for each node")
@BOTH
@pytest.mark.parametrize("cut", ["last axis", "first axis"])
@pytest.mark.parametrize("pair_in_front", [False, True])
def test_one_product_for_queries_keys_and_values_runs_in_float_unless_a_pair_stands_before_the_cut(
    pair_in_front, cut, number_format, oracle
):
    model = cut_projection(cut, KINDS[number_format], pair_in_front=pair_in_front)
    layers = oracle.judge(model, (89,)).layers
    product = one_kernel(layers, "all.MatMul", r"_CastMulFc_|all\.MatMul_myl")
    assert input_types(product)[-1] == (CODES[number_format] if pair_in_front else "Float")
