"""An operator or tensor becomes float again: what its readers read then, and where nothing can be read."""

import numpy as np
import onnx
import pytest
from onnx import helper
from support.fixing import assert_same_bits, carried_out, constant, maker, node, read, refusal
from support.ort_verdict import ort_outputs
from support.small import make_model, run

from qdqtool.jobs.fix import FixRequest, fix_model
from qdqtool.linting.policy import Policy
from qdqtool.linting.rules import Draft, Fix, RuleContext, UnfitError
from qdqtool.linting.rules.fixes.unquantize import bounded_source, float_fix, float_layer, float_tensor
from qdqtool.models.graph.edits.edit import AddNode
from qdqtool.models.graph.edits.naming import Namer
from qdqtool.models.graph.model import Model

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


def half_quantized(scale: float, zero_point: np.generic, opset: int) -> onnx.ModelProto:
    """x -> MatMul(w) -> Q -> DQ -> MatMul(x) -> y: one operand of the second product is quantized."""
    nodes = [
        helper.make_node("MatMul", ["x", "w"], ["m"]),
        helper.make_node("QuantizeLinear", ["m", "s", "z"], ["q"], name="bounds"),
        helper.make_node("DequantizeLinear", ["q", "s", "z"], ["d"]),
        helper.make_node("MatMul", ["d", "x"], ["y"], name="product"),
    ]
    constants = {"w": np.eye(4, dtype=np.float32), "s": np.float32(scale), "z": np.asarray(zero_point)}
    return make_model(nodes, {"x": (4, 4)}, {"y": (4, 4)}, constants, opset=opset)


@pytest.mark.parametrize("opset", [10, 17])
@pytest.mark.parametrize(
    ("scale", "zero_point", "bounds"),
    [
        (0.07, np.uint8(0), (0, np.inf)),
        (6 / 255, np.uint8(0), (0, 6)),
        (2 / 255, np.int8(0), (-1, 1)),
        (0.07, np.int8(0), None),
    ],
    ids=str,
)
def test_the_bounds_stay(scale: float, zero_point: np.generic, bounds: tuple[float, float] | None, opset: int) -> None:
    before = half_quantized(scale, zero_point, opset)
    policy = Policy(targets=("tensorrt",), select=("QL302",))
    fixed = fix_model(Model(before), FixRequest(policy=policy, unsafe=True))
    assert [change.code for change in fixed.report.changes] == ["QL302"]
    x = np.random.default_rng(0).normal(size=(4, 4)).astype(np.float32) * 10
    expected = (np.clip(x, *bounds) if bounds else x) @ x
    assert np.allclose(run(fixed.model.proto, {"x": x})[0], expected, rtol=1e-4)


UNKNOWN = """
agraph (float[4] x) => (float[4] y) <float s = {{{scale}}}, {kind} z = {{0}}> {{
    m = local.Unknown (x)
    q = QuantizeLinear (m, s, z)
    d = DequantizeLinear (q, s, z)
    y = Neg (d)
}}
"""


def test_a_tensor_of_unknown_type_is_not_clipped():
    context = read(UNKNOWN.format(scale=repr(6 / 255), kind="uint8"))
    with pytest.raises(UnfitError) as refused:
        bounded_source(Draft(context, Namer(context.view)), maker(context, "q"), "m")
    assert str(refused.value) == "the type of 'm' is unknown, so that it cannot be clipped"


@pytest.mark.parametrize(("kind", "source"), [("uint8", "m_Relu_Output"), ("int8", "m")])
def test_a_relu_and_no_bound_need_no_type(kind: str, source: str):
    context = read(UNKNOWN.format(scale=0.07, kind=kind))
    draft = Draft(context, Namer(context.view))

    assert bounded_source(draft, maker(context, "q"), "m") == source
    assert [edit.op_type for edit in draft.edits if isinstance(edit, AddNode)] == ["Relu"] * (kind == "uint8")


BIAS = """
agraph (float[2,3] x) => (float[2,3] y) <{kind}[3] b_quantized = {{1,-2,7}}, float[3] s = {{0.5, 0.25, 2}}> {{
    b = DequantizeLinear <axis = 0> (b_quantized, s)
    y = Add (x, b)
}}
"""


@pytest.mark.parametrize("kind", ["int32", "int8", "int16"])
def test_readers_read_the_same_values(kind: str):
    context = read(BIAS.format(kind=kind))
    fix = float_fix(maker(context, "b"))
    fixed = carried_out(context, fix)

    assert fix.description == "stores the dequantized values as float"
    assert constant(fixed, "y", 1).tolist() == [0.5, -0.5, 14]
    assert [each.name for each in fixed.graph.initializer][-1] == "b_float"
    assert_same_bits(context, fixed, x=np.float32([[1, 2, 3], [0, 0, 0.1]]))


def test_what_nobody_reads_is_left_alone():
    proto = read(BIAS.format(kind="int8")).model.proto
    proto.graph.node[0].output[0] = ""
    context: RuleContext = read(proto)

    assert refusal(context, float_fix(context.qdq.nodes[0])) == "nothing reads it"
