"""An operator or tensor becomes float again: what its readers read then, and where nothing can be read."""

import numpy as np
import onnx
import pytest
from support.fixing import carried_out, constant, maker, node, read, refusal
from support.ort_verdict import ort_outputs

from qdqtool.linting.rules import Fix, RuleContext
from qdqtool.linting.rules.fixes.unquantize import float_layer, float_tensor

X = np.float32([[0.1, -0.2], [3, 40]])

LAYER = """
agraph (float[2,2] x) => (float[2,2] y{outputs})
<float s = {{0.5}}, int8 z = {{0}}, int8[2,2] w = {{1,-2,3,4}}, float[2,2] f = {{0.1,2,3,4}}> {{
    q = QuantizeLinear (x, s, z)
    d = DequantizeLinear (q, s, z)
    {nodes}
}}
"""


def layer(nodes: str, outputs: str = "") -> RuleContext:
    return read(LAYER.format(nodes=nodes, outputs=outputs))


def fix_of_layer(context: RuleContext) -> Fix:
    (product,) = context.products
    return float_layer(product)


def test_a_stored_weight_is_dequantized_and_the_activation_read_in_front_of_its_pair():
    context = layer("wd = DequantizeLinear (w, s)  y = MatMul (d, wd)")
    fixed = carried_out(context, fix_of_layer(context))

    assert list(node(fixed, "y").input) == ["x", "w_float"]
    np.testing.assert_array_equal(constant(fixed, "y", 1), np.float32([[0.5, -1], [1.5, 2]]))
    np.testing.assert_allclose(ort_outputs(fixed, {"x": X})["y"], X @ constant(fixed, "y", 1), rtol=1e-6)


def test_a_float_weight_is_rounded_as_its_pair_does():
    context = layer("fq = QuantizeLinear (f, s, z)  fd = DequantizeLinear (fq, s, z)  y = MatMul (d, fd)")
    fixed = carried_out(context, fix_of_layer(context))

    assert list(node(fixed, "y").input) == ["x", "f_float"]
    np.testing.assert_array_equal(constant(fixed, "y", 1), np.float32([[0, 2], [3, 4]]))


@pytest.mark.parametrize(
    ("nodes", "reader"),
    [("y = MatMul (f, d)", ["f", "x"]), ("y = MatMul (d, f)", ["x", "f"]), ("y = MatMul (d, d)", ["x", "x"])],
)
def test_only_what_is_quantized_changes(nodes: str, reader: list[str]):
    context = layer(nodes)

    assert list(node(carried_out(context, fix_of_layer(context)), "y").input) == reader


@pytest.mark.parametrize("nodes", ["t = Identity (d)  y = MatMul (t, f)", "t = Identity (d)  y = MatMul (f, t)"])
def test_a_pair_behind_another_operator_stays(nodes: str):
    context = layer(nodes)

    assert refusal(context, fix_of_layer(context)) == "other operators stand between the pair and its reader"


def test_all_readers_of_a_tensor_read_what_stands_in_front_of_its_pair():
    context = layer(
        """
        y = Add (f, d)
        c = ReduceMax <keepdims = 0> (d)
        b = Cast <to = 9> (c)
        r = If (b) <then_branch = g1 () => (float[2,2] t) { t = Neg (d) },
                    else_branch = g2 () => (float[2,2] e) { e = Identity (d) }>
        """,
        ", float[2,2] r",
    )
    fixed = carried_out(context, float_tensor(maker(context, "d")))

    assert list(node(fixed, "y").input) == ["f", "x"]
    assert [list(each.g.node[0].input) for each in node(fixed, "r").attribute] == [["x"], ["x"]]
    after = ort_outputs(fixed, {"x": X})
    np.testing.assert_array_equal(after["r"], -X)


HIDDEN = """
agraph (float[2,2] x, bool b) => (float[2,2] r) <float s = {{0.5}}, int8 z = {{0}}, float[2,2] f = {{1,2,3,4}}> {{
    q = QuantizeLinear (x, s, z)
    d = DequantizeLinear (q, s, z)
    r = If (b) <then_branch = g1 () => (float[2,2] t) {{ {0} = Neg (f)  t = MatMul (d, {0}) }},
                else_branch = g2 () => (float[2,2] e) {{ e = Identity (f) }}>
}}
"""


@pytest.mark.parametrize("name", ["x", "other"])
def test_a_name_that_means_another_tensor_where_a_reader_stands_is_not_read(name: str):
    context = read(HIDDEN.format(name))
    for fix in (float_tensor(maker(context, "d")), fix_of_layer(context)):
        if name == "x":
            assert refusal(context, fix) == "'x' cannot be read here"
        else:
            body = node(carried_out(context, fix), "r").attribute[0].g
            assert list(body.node[1].input) == ["x", "other"]


def test_every_reader_must_see_the_tensor():
    text = (
        HIDDEN.format("x")
        .replace("r = If", "m = Neg (d)  r = If")
        .replace("(float[2,2] r)", "(float[2,2] r, float[2,2] m)")
    )
    context = read(text)

    assert refusal(context, float_tensor(maker(context, "d"))) == "'x' cannot be read here"


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ("no data", "there is no float tensor that could be read instead"),
        ("no Q", "there is no float tensor that could be read instead"),
        ("another type", "the pair changes the type of the tensor"),
        ("no output", "nothing reads it"),
    ],
)
def test_what_stays_quantized(change: str, reason: str):
    proto = layer("y = Add (f, d)").model.proto
    quantizer, dequantizer = proto.graph.node[:2]
    match change:
        case "no data":
            quantizer.input[0] = "nowhere"
        case "no Q":
            dequantizer.input[0] = "w"
        case "another type":
            dequantizer.attribute.append(onnx.helper.make_attribute("output_dtype", onnx.TensorProto.FLOAT16))
        case "no output":
            dequantizer.output[0] = ""
    context = read(proto)
    (entry,) = context.qdq.dequantizers()

    assert refusal(context, float_tensor(entry)) == reason


def test_an_output_keeps_its_pair():
    context = layer("y = Add (f, d)", ", float[2,2] d")

    assert refusal(context, float_tensor(maker(context, "d"))) == "'d' is an output"
