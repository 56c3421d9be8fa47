"""Fixes to symmetric codes, against integers: exact ones keep every value, others find the scale that still fits."""

from fractions import Fraction

import numpy as np
import onnx
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from onnx import TensorProto as T
from support.corpus._case import graph_model, node, pair, tensor
from support.fixing import maker, read, refusal

from qdqtool.linting.rules import Draft, Fix, RuleContext, UnfitError
from qdqtool.linting.rules.fixes.symmetric import symmetric_fixes
from qdqtool.models.graph.edits.naming import Namer
from qdqtool.models.graph.edits.surgeon import apply_edits
from qdqtool.models.graph.io.tensors import read_array
from qdqtool.models.graph.model import Model
from qdqtool.models.running.ort_cpu import Session

RANGES = {T.UINT8: (0, 255), T.INT8: (-128, 127), T.UINT4: (0, 15), T.INT4: (-8, 7)}
WORDS = {T.UINT8: "uint8", T.INT8: "int8", T.UINT4: "uint4", T.INT4: "int4", T.INT16: "int16", T.UINT16: "uint16"}
SIGNED = {T.UINT8: "int8", T.INT8: "int8", T.UINT4: "int4", T.INT4: "int4"}
HALF = Fraction(1, 2) + Fraction(1, 10_000)


def offered(model: onnx.ModelProto, op_type: str = "DequantizeLinear") -> tuple[RuleContext, tuple[Fix, ...]]:
    context = RuleContext(Model(model))
    entry = next(each for each in context.qdq.nodes if each.node.op_type == op_type)
    return context, symmetric_fixes(context, entry)


def carried_out(context: RuleContext, fix: Fix) -> Model:
    draft = Draft(context, Namer(context.view))
    fix.write(draft)
    return apply_edits(context.model, draft.edits)


def constant(model: Model, op_type: str, index: int) -> np.ndarray:
    """What an input of the only node with that operator holds."""
    (found,) = [each for each in model.proto.graph.node if each.op_type == op_type]
    (stored,) = [each for each in model.proto.graph.initializer if each.name == found.input[index]]
    return read_array(model, stored)


def run(model: Model, **feeds: np.ndarray) -> np.ndarray:
    with Session(model) as session:
        return session.run(feeds)["y"]


def weight_model(
    codes: np.ndarray, kind: int, zero_point: object, scale: object = 0.5, *, between: str = "", reader: str = "MatMul"
) -> onnx.ModelProto:
    """Stored codes [4, n] -> DQ on axis 1 -> MatMul with x [2, 4] -> y; with ``between``, codes -> operator -> DQ."""
    moved = {"": "w", "Gather": "m"}[between]
    nodes = [node("Gather", ["w", "rows"], "m")] if between else []
    nodes.append(node("DequantizeLinear", [moved, "s", *(["z"] if zero_point is not None else [])], "d", axis=1))
    nodes.append(node(reader, ["x", "d"], "y"))
    shape = [2, 4] if reader == "MatMul" else list(codes.shape)
    constants = [tensor("w", codes, kind), tensor("s", scale), tensor("rows", np.arange(codes.shape[0]), T.INT64)]
    constants += [tensor("z", zero_point, kind)] if zero_point is not None else []
    last = [shape[0], codes.shape[1]]
    return graph_model(nodes, [("x", T.FLOAT, shape)], [("y", T.FLOAT, last)], constants)


@st.composite
def weights(draw: st.DrawFn) -> tuple[int, np.ndarray, np.ndarray]:
    """A type, codes [4, 3], and one zero point or one for each column; the differences are often just in range."""
    kind = draw(st.sampled_from(list(RANGES)))
    low, high = RANGES[kind]
    span = (high - low + 1) // 2
    zero = np.asarray(draw(st.lists(st.integers(low, high), min_size=3, max_size=3)))
    off = np.reshape(
        draw(st.lists(st.sampled_from([-span - 1, -span, -1, 0, span - 1, span]), min_size=12, max_size=12)), (4, 3)
    )
    if draw(st.booleans()):
        return kind, np.clip(off + zero, low, high), zero
    return kind, np.clip(off + zero[0], low, high), zero[0]


@settings(max_examples=60)
@given(weights())
def test_exact_fixes_of_stored_codes_subtract_the_zero_point_where_that_is_in_range(
    case: tuple[int, np.ndarray, np.ndarray],
):
    kind, codes, zero = case
    context, fixes = offered(weight_model(codes, kind, zero, np.full(zero.shape, 0.5)))
    narrow = kind in {T.UINT4, T.INT4}
    goals = [SIGNED[kind], "int8"] if narrow else ["int8"]
    wanted = codes - zero

    assert [fix.description for fix in fixes[:-1]] == [
        f"stores the {WORDS[kind]} codes as {goal} with zero point 0, exactly" for goal in goals
    ]
    for goal, fix in zip(goals, fixes, strict=False):
        low, high = (-8, 7) if goal == "int4" else (-128, 127)
        assert fix.is_ruled_out is not bool(wanted.min() >= -128 and wanted.max() <= 127)
        if low <= wanted.min() and wanted.max() <= high:
            fixed = carried_out(context, fix)
            stored, left = constant(fixed, "DequantizeLinear", 0), constant(fixed, "DequantizeLinear", 2)
            assert (str(stored.dtype), str(left.dtype), left.shape) == (goal, goal, zero.shape)
            np.testing.assert_array_equal(stored.astype(int), wanted)
            assert not left.astype(int).any()
        else:
            with pytest.raises(UnfitError) as refused:
                carried_out(context, fix)
            words = f"codes minus zero point range from {wanted.min()} to {wanted.max()}, outside {goal}"
            assert str(refused.value) == words


@settings(max_examples=40)
@given(weights())
@pytest.mark.parametrize("between", ["", "Gather"])
def test_a_weight_that_is_quantized_again_is_off_by_half_a_step_at_most(
    between: str, case: tuple[int, np.ndarray, np.ndarray]
):
    kind, codes, zero = case
    if between:
        zero = zero.reshape(-1)[0]
    context, fixes = offered(weight_model(codes, kind, zero, np.full(zero.shape, 0.5), between=between))
    values = (codes - zero) * 0.5

    fixed = carried_out(context, fixes[-1])

    reader = "Gather" if between else "DequantizeLinear"
    stored, scale = constant(fixed, reader, 0), constant(fixed, "DequantizeLinear", 1)
    assert str(stored.dtype) == "int8"
    assert str(constant(fixed, "DequantizeLinear", 2).dtype) == "int8"
    assert not constant(fixed, "DequantizeLinear", 2).any()
    greatest = np.abs(values).max(axis=0) if zero.ndim else np.abs(values).max()
    # A channel of zeros has no scale that follows from it.
    np.testing.assert_allclose(scale, np.where(greatest > 0, greatest / 127, scale), rtol=1e-6)
    assert np.all(scale > 0)
    assert np.all(np.abs(stored * scale.astype(float) - values) <= float(HALF) * scale)


def test_a_table_of_zeros_keeps_its_scale():
    context, fixes = offered(weight_model(np.full((4, 3), 7), T.UINT8, 7, between="Gather"))
    fixed = carried_out(context, fixes[-1])

    assert constant(fixed, "DequantizeLinear", 1) == 0.5
    assert not constant(fixed, "Gather", 0).any()


def test_stored_codes_that_are_moved_need_one_scale():
    context, fixes = offered(weight_model(np.ones((4, 3)), T.UINT8, np.ones(3), np.ones(3), between="Gather"))

    assert refusal(context, fixes[-1]) == "a Q shares the stored codes, or they have several scales"


def test_4_bit_codes_that_are_moved_are_not_widened_exactly():
    context, fixes = offered(weight_model(np.ones((4, 3)), T.UINT4, 8, between="Gather"))

    assert refusal(context, fixes[1]) == "the codes are not stored, or reach their DQ through another operator"


def activation_model(kind: int, zero_point: int | None, scale: float = 0.25) -> onnx.ModelProto:
    nodes = pair("x", "d")
    if zero_point is None:
        nodes = [node("QuantizeLinear", ["x", "s"], "q", output_dtype=kind), node("DequantizeLinear", ["q", "s"], "d")]
    constants = [tensor("s", scale), *([] if zero_point is None else [tensor("z", zero_point, kind)])]
    shape = [1, 64]
    return graph_model(
        [*nodes, node("Identity", ["d"], "y")], [("x", T.FLOAT, shape)], [("y", T.FLOAT, shape)], constants
    )


X = np.concatenate([np.linspace(-60, 60, 54), [-1e9, 1e9, 0.125, 0.375, -0.125, -0.375, 31.75, -32, 31.9, -32.2]])
X = X.astype(np.float32).reshape(1, 64)


@pytest.mark.parametrize("op_type", ["QuantizeLinear", "DequantizeLinear"])
@pytest.mark.parametrize("kind", RANGES)
@pytest.mark.parametrize("place", ["low", "half", "near half"])
def test_only_a_zero_point_in_the_middle_moves_an_activation_exactly(place: str, kind: int, op_type: str):
    low, high = RANGES[kind]
    half = (high - low + 1) // 2
    zero = {"low": 0, "half": min(half, high), "near half": half - 1}[place]
    model = activation_model(kind, zero)
    context, fixes = offered(model, op_type)

    assert fixes[0].is_ruled_out is not (place == "half" and low == 0)
    if place == "half" and low == 0:
        fixed = carried_out(context, fixes[0])
        np.testing.assert_array_equal(run(fixed, x=X), run(Model(model), x=X))
        for each in ("QuantizeLinear", "DequantizeLinear"):
            assert (str(constant(fixed, each, 2).dtype), int(constant(fixed, each, 2))) == (SIGNED[kind], 0)
    else:
        with pytest.raises(UnfitError) as refused:
            carried_out(context, fixes[0])
        words = f"no {SIGNED[kind]} codes hold its values with the same scale: its zero point is not {half}"
        assert str(refused.value) == words


@pytest.mark.parametrize("kind", [*RANGES, T.INT16, T.UINT16])
@pytest.mark.parametrize("zero", [0, 3, 7])
def test_an_activation_gets_the_scale_that_holds_its_range(zero: int, kind: int):
    low, high = {**RANGES, T.INT16: (-32768, 32767), T.UINT16: (0, 65535)}[kind]
    model = activation_model(kind, zero)
    context, fixes = offered(model, "QuantizeLinear")
    fixed = carried_out(context, fixes[-1])
    scale = 0.25 * max(abs(low - zero), abs(high - zero)) / 127
    clips = zero == 0 and low == 0

    assert constant(fixed, "QuantizeLinear", 1) == constant(fixed, "DequantizeLinear", 1) == np.float32(scale)
    assert ["Relu" in [each.op_type for each in fixed.proto.graph.node]] == [clips]
    exact = np.clip(X, (low - zero) * 0.25, (high - zero) * 0.25)
    kept = np.abs(X - exact) == 0
    assert np.abs(run(fixed, x=X) - exact)[kept].max() <= float(HALF) * scale
    words = f"quantizes {WORDS[kind]} symmetrically to int8: scale 0.25, zero point {zero} becomes scale {scale:.6g}"
    relu = " behind a Relu, as it clips at 0" if clips else ""
    assert fixes[-1].description == f"{words}, {scale / 0.25:.3g} times as wide{relu}"


@pytest.mark.parametrize("kind", [T.UINT8, T.INT8, T.UINT4])
def test_a_pair_whose_type_is_an_attribute_has_both_changed(kind: int):
    context, fixes = offered(activation_model(kind, None))
    fixed = carried_out(context, fixes[-1])

    (quantizer,) = [each for each in fixed.proto.graph.node if each.op_type == "QuantizeLinear"]
    assert [each.i for each in quantizer.attribute if each.name == "output_dtype"] == [T.INT8]
    assert int(constant(fixed, "DequantizeLinear", 2)) == 0
    assert ", zero point 0 becomes" in fixes[-1].description


@pytest.mark.parametrize(
    ("model", "op_type", "descriptions"),
    [
        (weight_model(np.ones((4, 3)), T.INT32, 1), "DequantizeLinear", ["stores the dequantized values as float"]),
        (weight_model(np.ones((4, 3)), T.FLOAT8E4M3FN, 0), "DequantizeLinear", []),
        (activation_model(T.FLOAT8E4M3FN, 0), "QuantizeLinear", []),
        (
            weight_model(np.ones((4, 3)), T.INT8, 1, reader="Add"),
            "DequantizeLinear",
            ["stores the dequantized values as float"],
        ),
        (weight_model(np.ones((4, 3)), T.UINT16, 1), "DequantizeLinear", ["quantizes uint16 symmetrically to int8"]),
        (
            weight_model(np.ones((4, 3)), T.INT8, 1),
            "DequantizeLinear",
            ["stores the int8 codes as int8 with zero point 0, exactly", "quantizes int8 symmetrically to int8"],
        ),
    ],
)
def test_what_is_offered(model: onnx.ModelProto, op_type: str, descriptions: list[str]):
    assert [fix.description for fix in offered(model, op_type)[1]] == descriptions


def test_codes_whose_values_are_an_output_stay_codes():
    model = weight_model(np.ones((4, 3)), T.INT8, 1, reader="Add")
    model.graph.output.append(onnx.helper.make_tensor_value_info("d", T.FLOAT, [4, 3]))

    assert len(offered(model)[1]) == 2


def joined_model(first: np.ndarray, second: np.ndarray, zero: int) -> onnx.ModelProto:
    """Stored uint8 codes and those of x [1, 64] and a table, all joined on axis 1, behind one DQ."""
    nodes = [
        node("QuantizeLinear", ["x", "s", "z"], "q"),
        node("Concat", ["q", "first", "second"], "c", axis=1),
        node("DequantizeLinear", ["c", "s", "z"], "y"),
    ]
    constants = [tensor("first", first, T.UINT8), tensor("second", second, T.UINT8)]
    constants += [tensor("s", 0.25), tensor("z", zero, T.UINT8)]
    model = graph_model(nodes, [("x", T.FLOAT, [1, 64])], [("y", T.FLOAT, [1, 72])], constants)
    declared = [("q", [1, 64]), ("c", [1, 72])]
    model.graph.value_info.extend(onnx.helper.make_tensor_value_info(name, T.UINT8, shape) for name, shape in declared)
    return model


def test_joined_codes_are_moved_together_and_so_are_their_declared_types():
    model = joined_model(np.arange(4).reshape(1, 4), np.arange(252, 256).reshape(1, 4), 128)
    context, fixes = offered(model)
    fixed = carried_out(context, fixes[0])

    np.testing.assert_array_equal(run(fixed, x=X), run(Model(model), x=X))
    assert {each.type.tensor_type.elem_type for each in fixed.proto.graph.value_info} == {T.INT8}


def test_stored_codes_that_a_q_shares_are_not_quantized_again():
    context, fixes = offered(joined_model(np.ones((1, 4)), np.ones((1, 4)), 3))

    assert refusal(context, fixes[-1]) == "a Q shares the stored codes, or they have several scales"


def test_tables_that_are_joined_get_the_scale_of_the_larger_one():
    nodes = [node("Concat", ["small", "large"], "c", axis=0), node("DequantizeLinear", ["c", "s", "z"], "y")]
    constants = [tensor("small", [10, 20], T.UINT8), tensor("large", [30, 10], T.UINT8)]
    constants += [tensor("s", 0.5), tensor("z", 10, T.UINT8)]
    model = graph_model(nodes, [], [("y", T.FLOAT, [4])], constants)
    model.graph.value_info.append(onnx.helper.make_tensor_value_info("c", T.UINT8, [4]))
    context, fixes = offered(model)
    fixed = carried_out(context, fixes[-1])

    assert constant(fixed, "DequantizeLinear", 1) == np.float32(0.5 * 20 / 127)
    np.testing.assert_array_equal(constant(fixed, "Concat", 0), [0, 64])  # 63.5 steps round to the even code
    np.testing.assert_array_equal(constant(fixed, "Concat", 1), [127, 0])
    assert [each.type.tensor_type.elem_type for each in fixed.proto.graph.value_info] == [T.INT8]


@pytest.mark.parametrize("number", [0, -1])
def test_the_type_attribute_of_a_q_and_the_declared_type_follow(number: int):
    model = activation_model(T.UINT8, 128)
    model.graph.node[0].attribute.append(onnx.helper.make_attribute("output_dtype", T.UINT8))
    model.graph.value_info.append(onnx.helper.make_tensor_value_info("d_codes", T.UINT8, [1, 64]))
    context, fixes = offered(model)
    fixed = carried_out(context, fixes[number])

    attributes = {each.op_type: {one.name: one.i for one in each.attribute} for each in fixed.proto.graph.node}
    assert attributes["QuantizeLinear"] == {"output_dtype": T.INT8}
    assert attributes["DequantizeLinear"] == {}
    assert [each.type.tensor_type.elem_type for each in fixed.proto.graph.value_info] == [T.INT8]


def test_without_the_type_attribute_none_is_written():
    context, fixes = offered(activation_model(T.UINT8, 128))

    for fix in (fixes[0], fixes[-1]):
        assert not any(each.attribute for each in carried_out(context, fix).proto.graph.node)


@pytest.mark.parametrize(("codes", "is_ruled_out"), [(255, True), (127, False)])
def test_many_stored_codes_are_not_read_before_a_fix_is_written(
    codes: int, is_ruled_out: bool, monkeypatch: pytest.MonkeyPatch
):
    model = weight_model(np.full((4, 3), codes), T.UINT8, 7)

    assert offered(model)[1][0].is_ruled_out is is_ruled_out
    monkeypatch.setattr("qdqtool.linting.rules.fixes.symmetric.MOST_READ", 11)
    assert not offered(model)[1][0].is_ruled_out


def test_every_channel_has_to_be_in_the_middle():
    zeros = np.full(64, 128)
    zeros[5] = 127
    nodes = [*pair("x", "y", axis=1)]
    constants = [tensor("s", np.full(64, 0.5)), tensor("z", zeros, T.UINT8)]
    model = graph_model(nodes, [("x", T.FLOAT, [1, 64])], [("y", T.FLOAT, [1, 64])], constants)
    context, fixes = offered(model)

    with pytest.raises(UnfitError, match="its zero point is not 128"):
        carried_out(context, fixes[0])
    assert fixes[-1].description == "quantizes uint8 symmetrically to int8"


def test_codes_without_a_zero_point_get_one_of_0():
    codes = np.arange(-6, 6).reshape(4, 3)
    context, fixes = offered(weight_model(codes, T.INT8, None))
    fixed = carried_out(context, fixes[0])

    np.testing.assert_array_equal(constant(fixed, "DequantizeLinear", 0), codes)
    assert constant(fixed, "DequantizeLinear", 2) == 0
    assert {"s_zero_point"} <= {each.name for each in fixed.proto.graph.initializer}


@pytest.mark.parametrize(("readers", "count"), [(["Add"], 1), (["Transpose"], 2), (["Add", "MatMul"], 2)], ids=str)
def test_a_constant_that_a_product_or_a_move_reads_stays_codes(readers: list[str], count: int):
    nodes = [node("DequantizeLinear", ["w", "s", "z"], "d")]
    nodes += [node(each, ["d"] if each == "Transpose" else ["x", "d"], f"y{each}") for each in readers]
    outputs = [(f"y{each}", T.FLOAT, [3, 3]) for each in readers]
    constants = [tensor("w", np.ones((3, 3)), T.INT8), tensor("s", 0.5), tensor("z", 1, T.INT8)]

    assert len(offered(graph_model(nodes, [("x", T.FLOAT, [3, 3])], outputs, constants))[1]) == count


@pytest.mark.parametrize(
    ("values", "reader", "count"),
    [("float", "y = MatMul (x, d)", 2), ("float", "y = Add (x, d)", 2), ("float", "r = Add (x, d)  y = Neg (r)", 2)],
)
def test_a_q_of_a_weight_gets_symmetric_codes(values: str, reader: str, count: int):
    context = read(
        f"""
        agraph (float[2,2] x) => (float[2,2] y) <{values}[2,2] w = {{1,2,3,4}}, float s = {{0.5}}, int8 z = {{1}}> {{
            q = QuantizeLinear (w, s, z)
            d = DequantizeLinear (q, s, z)
            {reader}
        }}
        """
    )
    assert len(symmetric_fixes(context, maker(context, "q"))) == count


@pytest.mark.parametrize("reader", ["y = Add (x, d)", "y = MatMul (x, d)", "y = Identity (d)"])
def test_an_activation_stays_codes_whatever_reads_it(reader: str):
    context = read(
        f"""
        agraph (float[2,2] x) => (float[2,2] y) <float s = {{0.5}}, uint8 z = {{1}}> {{
            q = QuantizeLinear (x, s, z)
            d = DequantizeLinear (q, s, z)
            {reader}
        }}
        """
    )
    assert len(symmetric_fixes(context, maker(context, "d"))) == 2


def test_a_q_of_int32_has_no_fix():
    context = read(
        """
        agraph (float[2] x) => (int32[2] q) <float s = {0.5}, int32 z = {1}> { q = QuantizeLinear (x, s, z) }
        """
    )
    assert symmetric_fixes(context, maker(context, "q")) == ()


def test_a_constant_that_nobody_reads_may_be_float():
    proto = weight_model(np.ones((4, 3)), T.INT8, 1, reader="Add")
    proto.graph.node[0].output[0] = ""
    context = read(proto)

    (fix,) = symmetric_fixes(context, context.qdq.nodes[0])
    assert fix.description == "stores the dequantized values as float"


def test_codes_of_another_type_than_their_zero_point_are_not_moved():
    """Signed codes cannot be moved by half the range, even where a zero point of the wrong type says so."""
    nodes = [node("Transpose", ["w"], "m"), node("DequantizeLinear", ["m", "s", "z"], "y")]
    constants = [tensor("w", np.ones((2, 2)), T.INT8), tensor("s", 0.5), tensor("z", 128, T.UINT8)]
    context, fixes = offered(graph_model(nodes, [], [("y", T.FLOAT, [2, 2])], constants))

    with pytest.raises(UnfitError, match="no int8 codes hold its values with the same scale"):
        carried_out(context, fixes[0])


def test_an_empty_weight_is_stored_as_it_is():
    context, fixes = offered(weight_model(np.zeros((4, 0)), T.UINT8, 7))
    fixed = carried_out(context, fixes[0])

    assert constant(fixed, "DequantizeLinear", 0).shape == (4, 0)
    assert constant(fixed, "DequantizeLinear", 2) == 0


def test_a_table_without_elements_keeps_its_scale():
    context, fixes = offered(weight_model(np.zeros((0, 3)), T.UINT8, 7, between="Gather"))

    assert constant(carried_out(context, fixes[-1]), "DequantizeLinear", 1) == 0.5


def test_a_table_without_a_zero_point_is_quantized_as_it_is():
    codes = np.array([[1, 2, 3], [4, 5, 6], [7, 100, 9], [0, 0, 0]])
    context, fixes = offered(weight_model(codes, T.UINT8, None, between="Gather"))
    fixed = carried_out(context, fixes[-1])
    scale = constant(fixed, "DequantizeLinear", 1)

    assert scale == np.float32(0.5 * 100 / 127)
    assert np.all(np.abs(constant(fixed, "Gather", 0) * scale - codes * 0.5) <= float(HALF) * scale)


@pytest.mark.parametrize("number", [0, -1])
def test_the_output_type_of_a_dq_stays(number: int):
    context = read(
        """
        agraph (float[4] x) => (float16[4] y) <float s = {0.25}, uint8 z = {128}> {
            q = QuantizeLinear (x, s, z)
            y = DequantizeLinear <output_dtype = 10> (q, s, z)
        }
        """
    )
    fixed = carried_out(context, symmetric_fixes(context, maker(context, "y"))[number]).proto

    assert {each.op_type: [one.i for one in each.attribute] for each in fixed.graph.node} == {
        "QuantizeLinear": [],
        "DequantizeLinear": [T.FLOAT16],
    }


@pytest.mark.parametrize(("kind", "reach"), [(T.UINT8, 255), (T.INT8, 128), (T.INT16, 32768)])
def test_without_a_zero_point_the_range_is_that_of_the_codes(kind: int, reach: int):
    context, fixes = offered(activation_model(kind, None))
    fixed = carried_out(context, fixes[-1])

    assert constant(fixed, "QuantizeLinear", 1) == np.float32(0.25 * reach / 127)


@pytest.mark.parametrize(("scale", "zero_point"), [([0.5, 0.25], [3, 4]), ([0.5, 0.25], [3]), ([0.5], [3, 4])], ids=str)
def test_several_scales_are_not_described(scale: list[float], zero_point: list[int]):
    constants = [tensor("s", scale), tensor("z", zero_point, T.UINT8)]
    model = graph_model(pair("x", "y", axis=0), [("x", T.FLOAT, [2, 2])], [("y", T.FLOAT, [2, 2])], constants)

    assert offered(model)[1][-1].description == "quantizes uint8 symmetrically to int8"
