"""The nodes and constants of a converted model, read as text, and its results in ONNX Runtime."""

import struct

import ml_dtypes
import numpy as np
import onnx
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays
from onnx import TensorProto, helper, numpy_helper, parser
from support.half import in_half, outputs_of, sqnr_db, types_of
from support.small import conv_model, make_model

from qdqtool.models.graph.io.save import inlined
from qdqtool.models.graph.io.tensors import is_pending
from qdqtool.models.graph.model import Model
from qdqtool.models.options import HalfType
from qdqtool.models.transforms.half import convert_to_half
from qdqtool.models.transforms.half.edits import rounded

FEW_ROUNDINGS = 50.0
SHOWN = ("to", "output_dtype", "axis", "block_size")


def model_of(graph: str, opset: int = 21) -> onnx.ModelProto:
    return parser.parse_model(f'<ir_version: 10, opset_import: ["": {opset}, "mine": 1]> {graph}')


def lines(model: onnx.ModelProto) -> list[str]:
    """The nodes of the main graph, such as ``y = Cast(x) to=1``, in their order."""
    return [_line(node) for node in model.graph.node]


def _line(node: onnx.NodeProto) -> str:
    attributes = {each.name: each.i for each in node.attribute if each.name in SHOWN}
    named = "".join(f" {name}={value}" for name, value in sorted(attributes.items()))
    return f"{', '.join(node.output)} = {node.op_type}({', '.join(node.input)}){named}"


def constants(model: onnx.ModelProto) -> dict[str, tuple[str, object]]:
    """Type and value of every initializer."""
    stored = model.graph.initializer
    return {each.name: (TensorProto.DataType.Name(each.data_type), _values(each)) for each in stored}


def _values(tensor: onnx.TensorProto) -> object:
    return numpy_helper.to_array(tensor).astype(np.float32).tolist()


def require_same(model: onnx.ModelProto, written: onnx.ModelProto, shape: tuple[int, ...] = (4,)) -> None:
    feeds = {"x": np.random.default_rng(3).standard_normal(shape).astype(np.float32)}
    for name, expected in outputs_of(model, feeds).items():
        assert sqnr_db(expected, outputs_of(written, feeds)[name]) > FEW_ROUNDINGS


def test_a_returned_tensor_is_cast_and_its_readers_read_the_type_that_they_compute_in() -> None:
    model = model_of(
        """g (float[4] x) => (float[4] y, float[4] a, float[4] b) <float large = {1e5}, float c = {0.5}> {
            a = Sigmoid (x) y = Mul (a, c) b = Mul (a, large) }"""
    )
    written, half = in_half(model)
    assert lines(written) == [
        "x_float16 = Cast(x) to=10",
        "a_float16 = Sigmoid(x_float16)",
        "y_float16 = Mul(a_float16, c_float16)",
        "a = Cast(a_float16) to=1",
        "b = Mul(a, large)",
        "y = Cast(y_float16) to=1",
    ]
    assert constants(written) == {"large": ("FLOAT", 1e5), "c_float16": ("FLOAT16", 0.5)}
    assert (half.nodes, half.casts) == (2, 3)
    require_same(model, written)


def test_readers_in_float32_share_one_cast() -> None:
    model = model_of(
        """g (float[4] x) => (float[4] y) <float large = {1e5}> {
            a = Sigmoid (x) b = Mul (a, large) c = Add (b, a) y = Div (c, large) }"""
    )
    written, half = in_half(model, {((), "b"): 1e5})
    assert lines(written) == [
        "x_float16 = Cast(x) to=10",
        "a = Sigmoid(x_float16)",
        "a_float32 = Cast(a) to=1",
        "b = Mul(a_float32, large)",
        "c = Add(b, a_float32)",
        "y = Div(c, large)",
    ]
    assert [each.node for each in half.kept] == ["Mul -> b", "Add -> c", "Div -> y"]
    require_same(model, written)


PAIR = "q = QuantizeLinear (a, s, z) d = DequantizeLinear (q, s, z)"
HEAD = "g (float[4] x) => (float[4] y) <float s = {0.0625}, int8 z = {0}, float large = {1e5}>"


def test_a_pair_between_nodes_in_float16_has_scales_in_float16() -> None:
    model = model_of(f"{HEAD} {{ a = Sigmoid (x) {PAIR} y = Sigmoid (d) }}", 19)
    written, half = in_half(model)
    assert lines(written) == [
        "x_float16 = Cast(x) to=10",
        "a = Sigmoid(x_float16)",
        "q = QuantizeLinear(a, s_float16, z)",
        "d = DequantizeLinear(q, s_float16, z)",
        "y_float16 = Sigmoid(d)",
        "y = Cast(y_float16) to=1",
    ]
    assert constants(written) == {"z": ("INT8", 0), "large": ("FLOAT", 1e5), "s_float16": ("FLOAT16", 0.0625)}
    assert (half.nodes, half.kept, half.casts) == (2, (), 2)
    require_same(model, written)


def test_a_dq_that_only_float32_reads_stays_as_it_is() -> None:
    model = model_of(f"{HEAD} {{ a = Sigmoid (x) {PAIR} y = Mul (d, large) }}", 19)
    assert lines(in_half(model)[0]) == [
        "x_float16 = Cast(x) to=10",
        "a = Sigmoid(x_float16)",
        "q = QuantizeLinear(a, s_float16, z)",
        "d = DequantizeLinear(q, s, z)",
        "y = Mul(d, large)",
    ]


def test_a_dq_that_both_types_read_is_repeated() -> None:
    model = model_of(f"{HEAD} {{ a = Identity (x) {PAIR} e = Sigmoid (d) f = Mul (d, large) y = Add (e, f) }}", 19)
    written, _ = in_half(model, {((), "f"): 1e5})
    assert lines(written) == [
        "x_float16 = Cast(x) to=10",
        "a = Identity(x_float16)",
        "q = QuantizeLinear(a, s_float16, z)",
        "d = DequantizeLinear(q, s, z)",
        "d_float16 = DequantizeLinear(q, s_float16, z)",
        "e = Sigmoid(d_float16)",
        "f = Mul(d, large)",
        "e_float32 = Cast(e) to=1",
        "y = Add(e_float32, f)",
    ]
    require_same(model, written)


def test_a_q_reads_an_input_of_the_model_as_it_is() -> None:
    pair = PAIR.replace("(a,", "(x,")
    assert lines(in_half(model_of(f"{HEAD} {{ {pair} y = Sigmoid (d) }}", 19))[0])[:2] == [
        "q = QuantizeLinear(x, s, z)",
        "d = DequantizeLinear(q, s_float16, z)",
    ]


TYPED = """g (float[4] x) => (float[4] y) <float s = {0.0625}, int8 z = {0}, float large = {1e5}> {
    q = QuantizeLinear (x, s, z) d = DequantizeLinear <output_dtype = 1> (q, s, z) READERS }"""


def test_a_pair_whose_scale_has_no_equal_in_half_precision_keeps_it_between_casts() -> None:
    """Codes hold for their scale, and ONNX Runtime has no QuantizeLinear with two float types."""
    text = """g (float[4] x) => (float[4] y) <float s = {SCALE}, int8 z = {0}> {
        a = Sigmoid (x) q = QuantizeLinear (a, s, z) d = DequantizeLinear (q, s, z) y = Tanh (d) }"""
    model = model_of(text.replace("SCALE", "0.1"))
    written = require_valid_half(model)
    assert lines(written) == [
        "x_float16 = Cast(x) to=10",
        "a = Sigmoid(x_float16)",
        "a_float32 = Cast(a) to=1",
        "q = QuantizeLinear(a_float32, s, z)",
        "d = DequantizeLinear(q, s, z)",
        "d_float16 = Cast(d) to=10",
        "y_float16 = Tanh(d_float16)",
        "y = Cast(y_float16) to=1",
    ]
    assert constants(written) == constants(model)
    require_same(model, written)
    assert "a_float32" not in str(lines(in_half(model_of(text.replace("SCALE", "0.125")))[0]))


def require_valid_half(model: onnx.ModelProto) -> onnx.ModelProto:
    written = inlined(convert_to_half(Model(model), HalfType.FP16).model)
    assert written is not None
    onnx.checker.check_model(written, full_check=True)
    return written


def test_a_stated_output_type_is_changed_instead_of_the_scale() -> None:
    model = model_of(TYPED.replace("READERS", "y = Sigmoid (d)"), 23)
    written, _ = in_half(model)
    assert lines(written)[:2] == ["q = QuantizeLinear(x, s, z)", "d = DequantizeLinear(q, s, z) output_dtype=10"]
    assert "s_float16" not in constants(written)


def test_a_repeated_dq_states_its_own_output_type() -> None:
    readers = "e = Sigmoid (d) f = Mul (d, large) y = Add (e, f)"
    written, _ = in_half(model_of(TYPED.replace("READERS", readers), 23), {((), "f"): 1e5})
    assert lines(written)[1:4] == [
        "d = DequantizeLinear(q, s, z) output_dtype=1",
        "d_float16 = DequantizeLinear(q, s, z) output_dtype=10",
        "e = Sigmoid(d_float16)",
    ]


BLOCKS = """g (float[2,4] x) => (float[2,4] y)
    <float[4,4] w = {0.5, -0.25, 0.125, 1, 0.5, -0.25, 0.125, 1, 0.5, -0.25, 0.125, 1, 0.5, -0.25, 0.125, 1},
     uint8[2,4] codes = {8, 16, 8, 16, 8, 16, 8, 16}, float outer = {0.0078125}, float large = {1e5}> {
    inner = DequantizeLinear (codes, outer)
    q = QuantizeLinear <axis = 0, block_size = 2, output_dtype = 3> (w, inner)
    d = DequantizeLinear <axis = 0, block_size = 2> (q, inner) READERS }"""


def test_weights_behind_a_q_with_computed_scales_become_float16_with_them() -> None:
    """The small outer scale stays float32."""
    written, half = in_half(model_of(BLOCKS.replace("READERS", "y = MatMul (x, d)"), 23))
    assert lines(written) == [
        "inner = DequantizeLinear(codes, outer) output_dtype=10",
        "q = QuantizeLinear(w_float16, inner) axis=0 block_size=2 output_dtype=3",
        "d = DequantizeLinear(q, inner) axis=0 block_size=2",
        "x_float16 = Cast(x) to=10",
        "y_float16 = MatMul(x_float16, d)",
        "y = Cast(y_float16) to=1",
    ]
    assert constants(written)["outer"] == ("FLOAT", 0.0078125)
    assert half.kept == ()


def test_computed_scales_stay_float32_where_a_reader_of_the_weight_does() -> None:
    readers = "a = MatMul (x, d) b = MatMul (a, d) c = Mul (d, large) y = MatMul (b, c)"
    model = model_of(BLOCKS.replace("READERS", readers), 23)
    written, half = in_half(model, {((), "c"): 1e5})
    assert lines(written) == [
        "inner = DequantizeLinear(codes, outer)",
        "q = QuantizeLinear(w, inner) axis=0 block_size=2 output_dtype=3",
        "d = DequantizeLinear(q, inner) axis=0 block_size=2",
        "x_float16 = Cast(x) to=10",
        "d_float16 = DequantizeLinear(q, inner) axis=0 block_size=2 output_dtype=10",
        "a = MatMul(x_float16, d_float16)",
        "b = MatMul(a, d_float16)",
        "c = Mul(d, large)",
        "b_float32 = Cast(b) to=1",
        "y = MatMul(b_float32, c)",
    ]
    assert [each.node for each in half.kept] == ["Mul -> c", "MatMul -> y"]


MEASURED_SCALE = """g (float[4] x) => (float[4] y) <float step = {0.0078125}, int8 z = {0}> {
    a = Sigmoid (x) m = ReduceMax <keepdims = 0> (a) s = Mul (m, step)
    q = QuantizeLinear (a, s, z) d = DequantizeLinear (q, s, z) y = Sigmoid (d) }"""


def converted(model: onnx.ModelProto) -> onnx.ModelProto:
    """The written model where a Cast may stand behind a DQ: that of a computed scale keeps float32 below opset 23."""
    written = inlined(convert_to_half(Model(model), HalfType.FP16).model)
    assert written is not None
    onnx.shape_inference.infer_shapes(written, check_type=True, strict_mode=True)
    return written


def test_a_pair_with_computed_scales_keeps_float32_before_opset_23() -> None:
    model = model_of(MEASURED_SCALE, 21)
    written = converted(model)
    assert lines(written) == [
        "x_float16 = Cast(x) to=10",
        "a = Sigmoid(x_float16)",
        "m = ReduceMax(a)",
        "s = Mul(m, step_float16)",
        "a_float32 = Cast(a) to=1",
        "s_float32 = Cast(s) to=1",
        "q = QuantizeLinear(a_float32, s_float32, z)",
        "d = DequantizeLinear(q, s_float32, z)",
        "d_float16 = Cast(d) to=10",
        "y_float16 = Sigmoid(d_float16)",
        "y = Cast(y_float16) to=1",
    ]
    require_same(model, written)


def test_a_pair_with_computed_scales_takes_float16_from_opset_23() -> None:
    assert lines(in_half(model_of(MEASURED_SCALE, 23))[0])[4:8] == [
        "s_float32 = Cast(s) to=1",
        "q = QuantizeLinear(a, s_float32, z)",
        "d = DequantizeLinear(q, s, z)",
        "y_float16 = Sigmoid(d)",
    ]


def test_blocks_with_computed_scales_keep_float32_before_opset_23() -> None:
    assert lines(converted(model_of(BLOCKS.replace("READERS", "y = MatMul (x, d)"), 21)))[:3] == [
        "inner = DequantizeLinear(codes, outer)",
        "q = QuantizeLinear(w, inner) axis=0 block_size=2 output_dtype=3",
        "d = DequantizeLinear(q, inner) axis=0 block_size=2",
    ]


MIXED = """g (float[4] x) => (float[4] y) <float s = {0.0625}, int8 z = {0}> {
    h = Cast <to = 10> (x) r = Neg (h) q = QuantizeLinear (r, s, z)
    d = DequantizeLinear <output_dtype = 10> (q, s, z) e = Add (r, d) y = Cast <to = 1> (e) }"""


def test_float16_that_the_model_has_already_stays() -> None:
    model = model_of(MIXED, 23)
    written, half = in_half(model)
    assert (written.graph, half.nodes, half.casts) == (model.graph, 0, 0)


@pytest.mark.parametrize(
    ("value", "filled"), [(None, 0.0), (0.25, 0.25), (0.1, float(np.float16(0.1))), (20000, 20000), (-1e9, -16376)]
)
def test_a_filled_tensor_is_filled_with_the_same_number(value: float | None, filled: float) -> None:
    """A number that represents minus infinity in front of a Softmax may be any large one."""
    nodes = [
        helper.make_node("ConstantOfShape", ["n"], ["f"]),
        helper.make_node("Sigmoid", ["x"], ["s"]),
        helper.make_node("Where", ["b", "f", "s"], ["w"]),
        helper.make_node("Softmax", ["w"], ["y"]),
    ]
    if value is not None:
        fill = numpy_helper.from_array(np.float32([value]))
        nodes[0].attribute.append(helper.make_attribute("value", fill))
    stored = {"n": np.array([4]), "b": np.array([True, False, True, False])}
    model = make_model(nodes, {"x": (4,)}, {"y": (4,)}, stored)
    written, half = in_half(model)
    (attribute,) = next(each for each in written.graph.node if each.op_type == "ConstantOfShape").attribute
    array = numpy_helper.to_array(attribute.t)
    assert (array.dtype, array.tolist()) == (np.float16, [filled])
    assert half.kept == ()
    require_same(model, written)


def test_constants_of_nodes_are_rounded_too() -> None:
    model = model_of(
        "g (float[4] x) => (float[4] y) { c = Constant <value_float = 0.1> () a = Sigmoid (x) y = Mul (a, c) }"
    )
    assert constants(in_half(model)[0]) == {"c_float16": ("FLOAT16", float(np.float16(0.1)))}


@pytest.mark.parametrize(("size", "pending"), [(1024, False), (1025, True)])
def test_large_constants_are_converted_when_they_are_saved(size: int, pending: bool) -> None:
    weight = np.random.default_rng(5).standard_normal(size).astype(np.float32)
    nodes = [helper.make_node("Sigmoid", ["x"], ["s"]), helper.make_node("Mul", ["s", "w"], ["y"])]
    half = convert_to_half(Model(make_model(nodes, {"x": (size,)}, {"y": (size,)}, {"w": weight})), HalfType.FP16)
    (tensor,) = half.model.proto.graph.initializer
    assert is_pending(tensor) == pending
    assert {name: payload.nbytes for name, payload in half.model.payloads.items()} == (
        {"w_float16": 2 * size} if pending else {}
    )
    written = inlined(half.model)
    assert written is not None
    assert np.array_equal(numpy_helper.to_array(written.graph.initializer[0]), weight.astype(np.float16))


def test_local_functions_stay_as_they_are() -> None:
    """Also nodes that would take either type."""
    model = model_of(
        """g (int64[4] i, float[4] x) => (int64[4] k, float[4] y) { k = mine.f (i) a = Sigmoid (x) y = Neg (a) }
        <domain: "mine", opset_import: ["": 21]> f (i) => (k) {
            s = Constant <value_float = 0.5> () z = Constant <value = int8 {0}> ()
            c = Cast <to = 1> (i) q = QuantizeLinear (c, s, z) d = DequantizeLinear (q, s, z)
            k = Cast <to = 7> (d)
        }"""
    )
    (function,) = model.functions
    function.value_info.extend(helper.make_tensor_value_info(name, TensorProto.FLOAT, (4,)) for name in "cd")
    written, half = in_half(model)
    assert written.functions == model.functions
    assert lines(written)[0] == "k = f(i)"
    assert (half.nodes, half.kept) == (2, ())


@pytest.mark.parametrize(
    ("op_type", "inputs", "output", "written"),
    [
        ("QuantizeLinear", ["", "s"], "q", ["q = QuantizeLinear(, s)"]),
        ("QuantizeLinear", ["a", ""], "q", ["a_float32 = Cast(a) to=1", "q = QuantizeLinear(a_float32)"]),
        ("Cast", ["a"], "", [" = Cast(a) to=1"]),
        ("DequantizeLinear", ["codes", "s"], "", [" = DequantizeLinear(codes, s)"]),
    ],
)
def test_a_node_that_lacks_an_operand_does_no_harm(
    op_type: str, inputs: list[str], output: str, written: list[str]
) -> None:
    to = {"to": 1} if op_type == "Cast" else {}
    nodes = [
        helper.make_node("Sigmoid", ["x"], ["a"]),
        helper.make_node(op_type, inputs, [output], **to),
        helper.make_node("Neg", ["a"], ["y"]),
    ]
    model = make_model(nodes, {"x": (4,)}, {"y": (4,)}, {"s": np.float32(0.5), "codes": np.int8([1, 2])})
    assert set(written) <= set(lines(convert_to_half(Model(model), HalfType.FP16).model.proto))


def by_struct(number: float) -> float:
    """A number as float16, rounded by Python."""
    try:
        return float(struct.unpack("e", struct.pack("e", number))[0])
    except OverflowError:
        return float(np.copysign(np.inf, number))


@given(arrays.arrays(np.float32, st.integers(0, 6), elements=st.floats(-1e5, 1e5, width=32)))
def test_constants_are_rounded_to_the_nearest(array: np.ndarray) -> None:
    """Except where nothing but zeros would be left."""
    expected = [by_struct(float(each)) for each in array]
    lost = any(array) and not any(expected)
    if lost:
        expected = [float(np.sign(each)) * 2.0**-24 for each in array]
    found = rounded(array, HalfType.FP16)
    assert found.dtype == np.float16
    assert found.tolist() == expected
    clipped = np.clip(array, np.float32(-16376), np.float32(16376))
    assert rounded(array, HalfType.FP16, clipped=True).tolist() == (
        expected if lost else [by_struct(float(each)) for each in clipped]
    )


@pytest.mark.parametrize("tiny", [[1e-12], [-1e-12, 0], [1e-12, -1e-9]])
def test_numbers_that_would_all_vanish_become_the_smallest(tiny: list[float]) -> None:
    found = rounded(np.float32(tiny), HalfType.FP16)
    assert found.tolist() == [float(np.sign(each)) * 2.0**-24 for each in tiny]


def test_some_numbers_may_vanish_beside_others() -> None:
    assert rounded(np.float32([1, 1e-12, 0]), HalfType.FP16).tolist() == [1, 0, 0]


def test_constants_of_bfloat16_are_rounded_as_ml_dtypes_does_and_none_vanishes_alone() -> None:
    found = rounded(np.float32([3.4e38, 1 + 2.0**-8, 1 + 3 * 2.0**-8, -3.4e38]), HalfType.BF16)
    assert found.dtype == ml_dtypes.bfloat16
    assert found.astype(float).tolist() == [np.inf, 1, 1 + 2.0**-6, -np.inf]
    assert rounded(np.float32([3.4e38]), HalfType.BF16, clipped=True).astype(float) < HalfType.BF16.finite / 3
    assert rounded(np.float32([0, -1e-45]), HalfType.BF16).astype(float).tolist() == [0, -HalfType.BF16.tiniest]


def test_a_network_in_bfloat16_is_valid_from_cast_to_cast() -> None:
    written, half = in_half(conv_model(22), half=HalfType.BF16)
    assert (half.nodes, half.kept, half.casts) == (3, (), 2)
    types = types_of(written)
    assert {types[name] for each in written.graph.node if each.op_type != "Cast" for name in each.input} == {"BFLOAT16"}


def test_casts_that_change_no_type_any_more_go_away() -> None:
    model = model_of(
        """g (float[4] x, bool c) => (float[4] y, float[4] a) <float half = {0.5}> {
            z = Tanh (x) a = Mul (z, half) k = Tanh (a) b = Cast <to = 1> (a) d = Cast <to = 1> (b) e = Mul (b, d)
            f = If (c) <then_branch = t () => (float[4] p) { g = Mul (b, d) p = Cast <to = 1> (g) },
                        else_branch = n () => (float[4] q) { q = Neg (d) }> y = Sum (e, f, k) }"""
    )
    written, _ = in_half(model)
    shown = lines(written)
    assert sorted(line for line in shown if "(a_float16" in line) == [
        "a = Cast(a_float16) to=1",
        "e = Mul(a_float16, a_float16)",
        "k = Tanh(a_float16)",
    ]
    bodies = {attribute.name: attribute.g for node in written.graph.node for attribute in node.attribute}
    then, otherwise = (bodies[name].node for name in ("then_branch", "else_branch"))
    assert [(node.op_type, *node.input) for node in then] == [("Mul", "a_float16", "a_float16"), ("Cast", "g")]
    assert (otherwise[0].op_type, otherwise[0].input[0]) == ("Neg", "a_float16")
    feeds = {"x": np.float32([1, -2, 3, 0.5]), "c": np.array(True)}
    for name, expected in outputs_of(model, feeds).items():
        assert sqnr_db(expected, outputs_of(written, feeds)[name]) > FEW_ROUNDINGS


def test_a_cast_that_a_float32_node_reads_stays() -> None:
    model = model_of(
        """g (float[4] x) => (float[4] y) <float large = {1e5}> {
            a = Relu (x) b = Cast <to = 1> (a) c = Mul (b, large) d = Tanh (c) y = Add (d, a) }"""
    )
    assert "b = Cast(a) to=1" in lines(in_half(model)[0])
