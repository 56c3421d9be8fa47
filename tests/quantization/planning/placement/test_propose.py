"""Where pairs go, pattern by pattern."""

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, parser
from support.engine_models import IMAGE, ROWS, Net
from support.placed import proposal
from support.small import make_model, nodes_of

from qdqtool.quantization.planning.placement import Selection, residual


def slots(model, **selection):
    """By tensor: granularity, and the first outputs of the nodes that read it dequantized."""
    found = {}
    for slot in proposal(model, Selection(**selection)).slots:
        assert slot.slot.uses
        assert slot.slot.tensor not in found
        found[slot.slot.tensor] = (str(slot.scheme.granularity), [ref.node[0] for ref in slot.slot.uses])
        assert (slot.scheme.format.name, slot.scheme.symmetric) == ("int8", True)
    return found


def skipped(model, **selection):
    return {node.node: node.reason.text for node in proposal(model, Selection(**selection)).skipped}


def conv(net, x, y, *, w=None, shape=(16, 16, 3, 3), **attributes):
    weight = w or net.float_weight(f"w_{y}", shape)
    pads = [shape[-1] // 2] * 4
    return net.op("Conv", [x, weight], y, pads=pads, **attributes)


def activated(net, x, y, op, **attributes):
    if op == "SiLU":
        return net.op("Mul", [x, net.op("Sigmoid", [x], f"{y}_s")], y)
    if op == "bias":
        return net.op("Add", [x, net.constant(f"{y}_b", np.ones((1, 16, 1, 1), np.float32))], y)
    return net.op(op, [x], y, **attributes)


@pytest.mark.parametrize("op", ["Relu", "Clip", "LeakyRelu", "HardSwish", "SiLU", "bias", "MaxPool"])
def test_the_pair_stands_behind_what_is_fused_into_a_conv(op):
    net = Net(17)
    attributes = {"kernel_shape": [2, 2]} if op == "MaxPool" else {}
    conv(net, activated(net, conv(net, "x", "c"), "a", op, **attributes), "y")
    assert slots(net.model(IMAGE)) == {
        "x": ("per-tensor", ["c"]),
        "w_c": ("per-axis 0", ["c"]),
        "a": ("per-tensor", ["y"]),
        "w_y": ("per-axis 0", ["y"]),
    }


def test_bias_stays_float():
    net = Net(17)
    net.op("Conv", ["x", net.float_weight("w", (4, 16, 1, 1)), net.float_weight("b", (4,))], "c")
    net.op("Flatten", ["c"], "f")
    net.op("Gemm", ["f", net.float_weight("v", (256, 16)), net.float_weight("d", (16,))], "y")
    assert set(slots(net.model(IMAGE))) == {"x", "w", "f", "v"}


def block(*, downsample=False, swapped=False):
    """A residual block between two Convs: r0 -> c1 -> r1 -> c2; Add with r0 or with the 1x1 Conv cd."""
    net = Net(17)
    net.op("Relu", [conv(net, "x", "c0")], "r0")
    net.op("Relu", [conv(net, "r0", "c1")], "r1")
    conv(net, "r1", "c2")
    skip = conv(net, "r0", "cd", shape=(16, 16, 1, 1)) if downsample else "r0"
    net.op("Add", [skip, "c2"] if swapped else ["c2", skip], "a")
    conv(net, net.op("Relu", ["a"], "ra"), "y")
    return net.model(IMAGE)


@pytest.mark.parametrize("swapped", [False, True])
def test_the_skip_branch_shares_the_pair_of_the_block_input(swapped):
    found = slots(block(swapped=swapped))
    assert found["r0"] == ("per-tensor", ["c1", "a"])
    assert "c2" not in found
    assert skipped(block()) == {}


@pytest.mark.parametrize("swapped", [False, True])
def test_of_two_convs_the_shallow_one_is_the_skip_branch(swapped):
    found = slots(block(downsample=True, swapped=swapped))
    assert found["cd"] == ("per-tensor", ["a"])
    assert found["r0"] == ("per-tensor", ["c1", "cd"])
    assert "c2" not in found


@pytest.mark.parametrize(
    ("op", "shape", "attributes", "granularity"),
    [
        ("MatMul", (64, 32), {}, "per-axis 1"),
        ("MatMul", (2, 64, 32), {}, "per-axis 2"),
        ("MatMul", (64,), {}, "per-tensor"),
        ("Gemm", (64, 32), {}, "per-axis 1"),
        ("Gemm", (32, 64), {"transB": 1}, "per-axis 0"),
    ],
)
def test_weight_scales_stand_on_the_output_channels(op, shape, attributes, granularity):
    net = Net(17)
    net.op(op, ["x", net.float_weight("w", shape)], "y", **attributes)
    assert slots(net.model(ROWS)) == {"x": ("per-tensor", ["y"]), "w": (granularity, ["y"])}


def test_a_weight_behind_transposes_is_quantized_where_it_is_stored():
    net = Net(17)
    net.float_weight("w", (32, 64))
    net.op("MatMul", ["x", net.op("Identity", [net.op("Transpose", ["w"], "t", perm=[1, 0])], "i")], "y")
    assert slots(net.model(ROWS)) == {"x": ("per-tensor", ["y"]), "w": ("per-axis 0", ["t"])}


def test_a_weight_behind_a_reshape_is_quantized_behind_it():
    net = Net(17)
    net.constant("shape", np.array([64, 32]))
    net.op("Reshape", [net.float_weight("w", (32, 64)), "shape"], "r")
    net.op("MatMul", ["x", "r"], "y")
    assert slots(net.model(ROWS)) == {"x": ("per-tensor", ["y"]), "r": ("per-axis 1", ["y"])}


def test_consumers_that_want_different_axes_get_slots_of_their_own():
    net = Net(17)
    net.float_weight("w", (64, 64))
    net.op("MatMul", ["x", "w"], "a")
    net.op("Gemm", ["x", "w"], "b", transB=1)
    net.op("MatMul", ["x", net.op("Transpose", ["w"], "t", perm=[1, 0])], "c")
    net.op("Sum", ["a", "b", "c"], "y")
    found = [s for s in proposal(net.model(ROWS)).slots if s.slot.tensor == "w"]
    readers = {str(slot.scheme.granularity): {ref.node[0] for ref in slot.slot.uses} for slot in found}
    assert readers == {"per-axis 1": {"a"}, "per-axis 0": {"b", "t"}}


def test_an_embedding_tied_to_the_last_layer_stays_float_for_the_lookup():
    net = Net(17)
    net.op("Gather", [net.float_weight("embed", (100, 64)), net.constant("ids", np.arange(8))], "tokens")
    net.op("Add", ["tokens", "x"], "h")
    net.op("MatMul", ["h", net.op("Transpose", ["embed"], "t", perm=[1, 0])], "y")
    assert slots(net.model(ROWS)) == {"h": ("per-tensor", ["y"]), "embed": ("per-axis 0", ["t"])}


def test_a_graph_output_keeps_its_float_value():
    net = Net(17)
    net.op("Relu", [conv(net, "x", "c")], "r")
    conv(net, "r", "y")
    model = net.model(IMAGE)
    model.graph.output.append(helper.make_tensor_value_info("r", TensorProto.FLOAT, None))
    assert slots(model)["r"] == ("per-tensor", ["y"])


def test_a_transposed_conv_is_quantized_only_when_it_is_asked_for():
    net = Net(17)
    net.op("ConvTranspose", ["x", net.float_weight("w", (16, 8, 2, 2))], "y")
    model = net.model(IMAGE)
    assert slots(model) == {}
    assert skipped(model)["y.ConvTranspose"].startswith("TensorRT for RTX runs it in float")
    expected = {"x": ("per-tensor", ["y"]), "w": ("per-tensor", ["y"])}
    assert slots(model, op_types_to_quantize=("ConvTranspose",)) == expected
    assert slots(model, nodes_to_quantize=("y.ConvTranspose",)) == expected
    assert slots(model, op_types_to_quantize=("*",)) == {}


def test_pools_and_joins_stay_float_and_say_why():
    net = Net(17)
    net.op("GlobalAveragePool", ["x"], "p")
    net.op("Concat", ["p", "p"], "y", axis=1)
    model = net.model(IMAGE)
    assert slots(model) == {}
    assert set(skipped(model)) == {"p.GlobalAveragePool", "y.Concat"}
    assert slots(model, op_types_to_quantize=("GlobalAveragePool",)) == {"x": ("per-tensor", ["p"])}


def test_a_join_names_the_consumer_that_decides_it():
    net = Net(17)
    for name in "abc":
        net.op("Concat", ["x", "x"], name, axis=1)
    conv(net, "a", "conv", shape=(16, 32, 3, 3))
    net.op("Transpose", ["b"], "moved", perm=[0, 2, 3, 1])
    net.op("Softmax", ["moved"], "soft", axis=1)
    model = net.model(IMAGE, output="conv")
    model.graph.output.extend(helper.make_tensor_value_info(name, TensorProto.FLOAT, None) for name in ("soft", "c"))
    found = skipped(model)
    assert {name: text.partition(";")[0] for name, text in found.items()} == {
        "a.Concat": "it only joins tensors: the pair of its consumer conv.Conv follows it",
        "b.Concat": "it only joins tensors, and its consumer soft.Softmax is float",
        "c.Concat": "it only joins tensors, and its consumer output 'c' is float",
    }


def attention(mask):
    """One head: softmax(x Wq (x Wk)^T masked) (x Wv)."""
    net = Net(17)
    q, k, v = (net.op("MatMul", ["x", net.float_weight(f"w{name}", (64, 64))], name) for name in "qkv")
    net.op("MatMul", [q, net.op("Transpose", [k], "kt", perm=[1, 0])], "scores")
    net.op("Div", ["scores", net.constant("width", np.float32(8))], "scaled")
    net.op("MatMul", [net.op("Softmax", [mask(net)], "weights"), v], "y")
    return net.model({"x": (8, 64)})


def causal(net, low=-1e4):
    return net.constant("mask", np.triu(np.full((8, 8), low, np.float32), 1))


def masked_where(net):
    net.constant("low", np.float32(-np.inf))
    return net.op("Where", [net.constant("keep", np.tri(8, dtype=bool)), "scaled", "low"], "masked")


MASKS = {
    "added": lambda net: net.op("Add", ["scaled", causal(net)], "masked"),
    "computed": lambda net: net.op("Add", ["scaled", net.op("Log", ["scaled"], "bias")], "masked"),
    "chosen": masked_where,
}


@pytest.mark.parametrize("mask", MASKS)
def test_attention_is_quantized_around_its_masked_scores(mask):
    found = slots(attention(MASKS[mask]))
    activations = {tensor: readers for tensor, (granularity, readers) in found.items() if granularity == "per-tensor"}
    assert activations == {"x": ["q", "k", "v"], "q": ["scores"], "kt": ["scores"], "weights": ["y"], "v": ["y"]}
    assert {tensor for tensor, (granularity, _) in found.items() if granularity == "per-axis 1"} == {"wq", "wk", "wv"}


@pytest.mark.parametrize(("mask", "reason"), [("added", "attention mask"), ("computed", "Softmax")])
def test_the_add_of_a_mask_says_why_it_stays_float(mask, reason):
    assert reason in skipped(attention(MASKS[mask]))["masked.Add"]


def test_a_trained_bias_is_no_mask():
    net = Net(17)
    net.op("Add", ["x", causal(net, low=-30)], "shifted")
    net.op("MatMul", ["shifted", net.float_weight("w", (8, 4))], "y")
    assert set(slots(net.model({"x": (8, 8)}))) == {"shifted", "w"}


def test_other_types_are_named_and_integers_are_no_question():
    model = parser.parse_model(
        """<ir_version: 8, opset_import: ["": 17]>
        g (double[2,4] x, int32[2,4] i) => (double[2,2] y, int32[2,2] j)
        <double[4,2] w = {1,2,3,4,5,6,7,8}, int32[4,2] v = {1,2,3,4,5,6,7,8}>
        { [wide] y = MatMul (x, w) [whole] j = MatMul (i, v) }"""
    )
    assert slots(model) == {}
    assert skipped(model) == {"wide": "'x' is float64; TensorRT 11 quantizes bfloat16, float16, float32"}


def test_what_is_quantized_already_is_left():
    net = Net(17)
    net.op("Conv", [net.activation("x"), net.weight("w", (16, 16, 1, 1), axis=0)], "c")
    conv(net, "c", "y")
    model = net.model(IMAGE)
    assert skipped(model) == {"c.Conv": "it is quantized already"}
    assert set(slots(model)) == {"c", "w_y"}


def test_a_product_behind_an_operator_on_codes_points_to_normalize():
    nodes = nodes_of("""xq = QuantizeLinear (x, s, z)  [codes] c = QLinearMatMul (xq, s, z, w, s, z, s, z)
        a = DequantizeLinear (c, s, z)  [product] y = MatMul (a, v)""")
    weights = {"s": np.float32(0.1), "z": np.int8(0), "w": np.ones((16, 16), np.int8), "v": np.ones((16, 16), "f4")}
    model = make_model(nodes, {"x": (4, 16)}, {"y": (4, 16)}, weights)
    reason = "it reads the output of QLinearMatMul 'codes'; `qdqtool normalize` turns such operators into pairs"
    assert skipped(model)["product"] == reason


def half_quantized(dequantize: str, kind: str = "int8", zero: int = 0) -> onnx.ModelProto:
    """A product whose weight comes from stored codes, as of a model that was normalized or is weight-only."""
    model = parser.parse_model(
        f"""<ir_version: 10, opset_import: ["": 21]>
        g (float[4,16] x) => (float[4,16] y) {{ {dequantize} [product] y = MatMul (x, d) }}"""
    )
    dtype = np.dtype(kind)
    constants = {
        "w": np.ones((16, 16), dtype),
        "s": np.float32(0.1),
        "z": np.array(zero, dtype),
        "ss": np.full(16, 0.1, np.float32),
        "zs": np.zeros(16, dtype),
    }
    model.graph.initializer.extend(onnx.numpy_helper.from_array(np.asarray(a), name) for name, a in constants.items())
    return model


@pytest.mark.parametrize(
    "dequantize",
    [
        "d = DequantizeLinear (w, s, z)",
        "d = DequantizeLinear (w, s)",
        "d = DequantizeLinear <axis = 1> (w, ss, zs)",
        "d = DequantizeLinear <axis = -1> (w, ss, zs)",
        "t = DequantizeLinear <axis = 0> (w, ss, zs) d = Transpose <perm = [1, 0]> (t)",
        "t = DequantizeLinear (w, s, z) d = Transpose <perm = [1, 0]> (t)",
    ],
)
def test_a_product_of_stored_codes_gets_a_pair_on_its_data_alone(dequantize: str):
    model = half_quantized(dequantize)
    assert slots(model) == {"x": ("per-tensor", ["y"])}
    assert skipped(model) == {}


@pytest.mark.parametrize(
    ("dequantize", "more"),
    [
        ("d = DequantizeLinear (w, s, z)", {"kind": "uint8", "zero": 128}),
        ("d = DequantizeLinear (w, s, z)", {"zero": 3}),
        ("d = DequantizeLinear (w, s, z)", {"kind": "int16"}),
        ("d = DequantizeLinear <axis = 0> (w, ss, zs)", {}),
        ("t = DequantizeLinear <axis = 1> (w, ss, zs) d = Transpose <perm = [1, 0]> (t)", {}),
        ("t = DequantizeLinear (w, s, z) d = Neg (t)", {}),
    ],
)
def test_codes_that_no_int8_kernel_takes_are_no_reason_to_quantize_the_data(dequantize: str, more: dict[str, object]):
    model = half_quantized(dequantize, **more)
    assert slots(model) == {}
    assert skipped(model) == {"product": "it is quantized already"}


BODY = """<ir_version: 8, opset_import: ["": 17]>
g (float[2,4] x, bool flag, int64 times) => (float[2,4] y)
<float[4,4] w = {1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,16}, bool yes = {1}> {
    [outside] o = MatMul (x, w)
    b = If (flag) <
        then_branch = t () => (float[2,4] r) { [inside] m = MatMul (o, w) r = Neg (m) },
        else_branch = e () => (float[2,4] r) { r = Neg (o) }
    >
    y = Loop (times, yes, b) <body = l (int64 i, bool c, float[2,4] v) => (bool co, float[2,4] n) {
        co = Identity (c)
        [repeated] n = MatMul (v, w)
    }>
}
"""


def test_bodies_are_quantized_with_weights_and_activations_of_the_scope_that_has_them():
    found = {
        (slot.slot.scope, slot.slot.tensor): [(ref.scope, ref.node[0]) for ref in slot.slot.uses]
        for slot in proposal(parser.parse_model(BODY)).slots
    }
    then, loop = ("b.then_branch",), ("y.body",)
    assert found == {
        ((), "x"): [((), "o")],
        ((), "w"): [((), "o"), (then, "m"), (loop, "n")],
        ((), "o"): [(then, "m")],
        (loop, "v"): [(loop, "n")],
    }


def test_what_cannot_be_observed_is_skipped():
    body = helper.make_graph(
        [helper.make_node("MatMul", ["v", "w"], ["n"], "hidden")],
        "body",
        [helper.make_tensor_value_info("v", 1, (2, 4))],
        [helper.make_tensor_value_info("n", 1, (2, 4))],
    )
    scan = helper.make_node("Scan", ["", "x"], ["y"], body=body, num_scan_inputs=1)
    net = Net(8)
    net.float_weight("w", (4, 4))
    net.nodes.append(scan)
    model = net.model({"x": (1, 3, 2, 4)})
    assert slots(model) == {}
    assert "'v' cannot be observed: it is in a body of Scan" in skipped(model)["hidden"]


def test_functions_are_quantized_but_for_weights_that_are_arguments():
    text = """<ir_version: 8, opset_import: ["": 17, "my": 1]>
    g (float[2,4] x) => (float[2,4] y) <float[4,4] w = {1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,16}> {
        y = my.Layer (x, w)
    }
    <domain: "my", opset_import: ["": 17]>
    Layer (a, v) => (b) {
        own = Constant <value = float[4,4] {1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,16}> ()
        [first] h = MatMul (a, own)
        [second] b = MatMul (h, v)
    }
    """
    model = parser.parse_model(text)
    assert slots(model) == {"a": ("per-tensor", ["h"]), "own": ("per-axis 1", ["h"])}
    assert "may be an argument of the local function" in skipped(model)["second"]


def test_an_attribute_that_a_caller_gives_is_named():
    text = """<ir_version: 8, opset_import: ["": 17, "my": 1]>
    g (float[2,2] x) => (float[2,2] y) { y = my.Layer <swap = 1> (x) }
    <domain: "my", opset_import: ["": 17]>
    Layer <swap> (a) => (b) {
        own = Constant <value = float[2,2] {1,2,3,4}> ()
        [turned] b = Gemm <transB: int = @swap> (a, own)
    }
    """
    assert skipped(parser.parse_model(text)) == {
        "turned": "one of its attributes is an argument of the local function; inline the function first"
    }


def test_the_same_model_gives_the_same_proposal():
    model = block(downsample=True)
    assert proposal(model) == proposal(onnx.load_from_string(model.SerializeToString()))


@pytest.mark.parametrize("bias", [False, True])
def test_the_sum_of_a_transformer_stays_float_and_says_why(bias):
    net = Net(17)
    product = net.op("MatMul", ["x", net.float_weight("w1", (64, 64))], "m")
    product = net.op("Add", [product, net.float_weight("b", (64,))], "biased") if bias else product
    net.op("MatMul", [net.op("Add", [product, "x"], "sum"), net.float_weight("w2", (64, 64))], "y")
    model = net.model(ROWS)
    assert skipped(model) == {
        "sum.Add": "it sums up layers without a Conv: such sums grow with depth, and one scale for them costs accuracy"
    }


def test_the_depths_of_a_scope_are_found_once_however_many_branches_meet(monkeypatch):
    asked = []
    whole = residual._depths
    monkeypatch.setattr(residual, "_depths", lambda scope: asked.append(scope) or whole(scope))
    net = Net(17)
    x, weight = "x", net.float_weight("w", (16, 16, 1, 1))
    for block in range(5):
        left, right = (net.op("Conv", [x, weight], f"{side}{block}") for side in "lr")
        x = net.op("Add", [left, right], f"s{block}" if block < 4 else "y")
    assert len(proposal(net.model(IMAGE)).slots) == 11
    assert len(asked) == 1


NAMED = ("*", "Concat", "MaxPool")


def test_what_is_not_computed_in_float_at_run_time_is_no_question_even_for_those_who_name_it():
    """Integers, and what is folded before the network runs."""
    constants = {
        "i": np.ones((1, 2, 4, 4), np.int32),
        "low": np.full((2, 2), -1e4, np.float32),
        "low2": np.full((2, 2), -2e4, np.float32),
    }
    nodes = nodes_of("""q = Cast <to = 3> (x)  [pool] a = MaxPool <kernel_shape = [2, 2]> (q)
        [concat] b = Concat <axis = 1> (q, q)  [folded_integers] c = Add (i, i)  [folded] d = Add (low, low2)
        [folded_concat] e = Concat <axis = 0> (low, low2)""")
    model = make_model(nodes, {"x": (1, 2, 4, 4)}, {"a": ()}, constants)
    assert skipped(model, op_types_to_quantize=NAMED) == {}
    assert slots(model, op_types_to_quantize=NAMED) == {}


def test_a_layer_without_its_first_output_is_named_all_the_same():
    net = Net(17)
    net.float_weight("w", (1, 64, 64))
    net.float_weight("r", (1, 64, 16))
    net.nodes.append(helper.make_node("LSTM", ["x", "w", "r"], ["", "h"], "lstm", hidden_size=16))
    (found,) = proposal(net.model({"x": (4, 2, 64)}, "h")).skipped
    assert (found.node, found.op_type) == ("lstm", "LSTM")
    assert (found.reason.code, found.reason.on_request) == ("float-operator", False)
    assert found.reason.text.endswith("its state is a float tensor inside the layer")


def called(times: int) -> onnx.ModelProto:
    calls = " ".join(f"t{number + 1} = my.Layer ({f't{number}' if number else 'x'})" for number in range(times))
    return parser.parse_model(
        f"""<ir_version: 8, opset_import: ["": 17, "my": 1]>
    g (float[1,2,4,4] x) => (float[1,2,4,4] t{times}) {{ {calls} }}
    <domain: "my", opset_import: ["": 17]>
    Layer (a) => (b) {{
        w = Constant <value = float[2,2,1,1] {{1,2,3,4}}> ()
        [conv] c = Conv (a, w)
        [sum] b = Add (c, a)
    }}
    """
    )


@pytest.mark.parametrize("times", [1, 2, 3])
def test_a_function_that_is_called_more_than_once_has_no_activations_of_its_own(times):
    told = f"its local function is called {times} times, and all calls would share one scale; inline the function"
    expected = {} if times == 1 else {"conv": told, "sum": told}
    assert skipped(called(times)) == expected
    assert slots(called(times)) == ({"a": ("per-tensor", ["c", "b"]), "w": ("per-axis 0", ["c"])} if times == 1 else {})


def test_an_excluded_add_says_so():
    assert skipped(block(), nodes_to_exclude=("a.Add",)) == {"a.Add": "excluded by --nodes-to-exclude 'a.Add'"}


def pooled(x: str) -> onnx.ModelProto:
    net = Net(17)
    net.constant("c", np.ones((1, 16, 8, 8), np.float32))
    net.op("DequantizeLinear", [net.codes("k", (1, 16, 8, 8)), net.scale("k_s")], "d")
    net.op("GlobalAveragePool", [x], "p")
    return net.model(IMAGE, "p")


@pytest.mark.parametrize(("x", "reason"), [("", "an operand is missing"), ("c", "its input is constant"), ("x", None)])
def test_a_pool_that_is_asked_for_takes_a_pair_on_an_activation_alone(x, reason):
    named = {"op_types_to_quantize": ("GlobalAveragePool",)}
    assert skipped(pooled(x), **named) == ({"p.GlobalAveragePool": reason} if reason else {})
    (found,) = proposal(pooled("x"), Selection(**named)).slots
    assert [(use.node, use.index) for use in found.uses] == [(("p",), 0)]
    assert found.reason == "input of GlobalAveragePool, as requested"


def test_a_pool_of_what_a_dq_makes_is_quantized_already():
    net = Net(17)
    net.op("GlobalAveragePool", [net.activation("x")], "p")
    named = {"op_types_to_quantize": ("GlobalAveragePool",)}
    assert skipped(net.model(IMAGE, "p"), **named) == {"p.GlobalAveragePool": "it is quantized already"}


def test_an_integer_concat_that_is_named_has_nothing_to_say():
    net = Net(17)
    net.op("Shape", ["x"], "s")
    net.op("Concat", ["s", "s"], "i", axis=0)
    net.op("Concat", ["x", "x"], "y", axis=1)
    assert set(skipped(net.model(IMAGE), op_types_to_quantize=("Concat",))) == {"y.Concat"}
