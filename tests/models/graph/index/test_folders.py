"""Every operator that constant folding knows, against ONNX Runtime."""

import itertools
import math
from fractions import Fraction

import numpy as np
import onnx
import onnxruntime
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from onnx import helper, numpy_helper
from support.small import run

from qdqtool.models.graph.index import folders
from qdqtool.models.graph.index.constants import Constants, fold_node
from qdqtool.models.graph.index.folders import FOLDERS
from qdqtool.models.graph.index.types import TensorTypes
from qdqtool.models.graph.index.view import GraphView
from qdqtool.models.graph.model import Model

A = np.arange(-4, 20, dtype=np.float32).reshape(2, 3, 4)
LOW, HIGH = np.iinfo(np.int64).min, np.iinfo(np.int64).max


def ints(*values):
    return np.array(values, np.int64)


def case(op, *arrays, opset=17, **attributes):
    return pytest.param(op, arrays, opset, attributes, id=f"{op}-{opset}-{len(arrays)}-{attributes}"[:60])


CASES = [
    case("Slice", A, ints(1), ints(HIGH), ints(2)),
    case("Slice", A, ints(0, 1), ints(1, 3)),
    case("Slice", A, ints(-1), ints(LOW), ints(1), ints(-1)),
    case("Slice", A, ints(-1), ints(-HIGH), ints(-1), ints(-2)),
    case("Slice", A, ints(2), ints(0), ints(1), ints(-1)),
    case("Slice", A, ints(99, -99), ints(-99, 99), ints(2, 1), ints(-1, 2)),
    case("Slice", A, opset=9, starts=[0, 1], ends=[9, -1], axes=[1, 2]),
    case("Slice", A, ints(1), ints(2)),
    case("Slice", A, ints(0, 0), ints(2, 3), ints(2, 1)),
    case("Slice", A, opset=9, starts=[1, 0], ends=[2, 2]),
    case("Reshape", A, ints(0, -1)),
    case("Reshape", A, ints(4, 0, 2)),
    case("Reshape", np.zeros((0, 3), np.float32), ints(3, 0), allowzero=1),
    case("Flatten", A),
    case("Flatten", A, axis=0),
    case("Flatten", A, axis=2),
    case("Flatten", A, axis=-1),
    case("Flatten", A, axis=3),
    case("Gather", A, ints(1, 0, 1)),
    case("Gather", A, ints(-1), axis=2),
    case("Concat", A, A, A, axis=1),
    case("Concat", A, A, axis=-1),
    case("Unsqueeze", A, ints(0, -1)),
    case("Squeeze", A[:1, :, :1]),
    case("Squeeze", A[:1, :, :1], ints(-1)),
    case("ConstantOfShape", ints(2, 3)),
    case("ConstantOfShape", ints(2, 0), value=numpy_helper.from_array(ints(7))),
    case("Expand", A[:1], ints(2, 1, 1)),
    case("Transpose", A),
    case("Transpose", A, perm=[1, 2, 0]),
    case("Shape", A),
    case("Shape", A, start=1, end=-1),
    case("Size", A),
    case("Equal", ints(1, 2, 3), ints(1, 5, 3)),
    case("Greater", A, np.float32(3)),
    case("GreaterOrEqual", A, np.float32(3)),
    case("Less", ints(1, 2), ints(2, 1)),
    case("LessOrEqual", ints(1, 2), ints(1, 1)),
    case("Not", np.array([True, False])),
    case("And", np.array([True, True, False]), np.array([True, False, False])),
    case("Or", np.array([True, True, False]), np.array([True, False, False])),
    case("Xor", np.array([True, True, False]), np.array([True, False, False])),
    case("Where", np.array([True, False]), ints(1, 2), ints(3, 4)),
    case("Range", np.int64(2), np.int64(11), np.int64(3)),
    case("Range", np.float32(1), np.float32(0), np.float32(-0.25)),
    case("Range", np.int64(2), np.int64(2), np.int64(3)),
    case("Range", np.float32(0), np.float32(0.5), np.float32(1)),
    case("ReduceProd", ints(3, 4, 5), keepdims=0),
    case("ReduceProd", np.array([3, 4], np.int32)),
    case("ReduceSum", A),
    case("ReduceMax", A),
    case("ReduceSum", A, ints(0, -1), noop_with_empty_axes=1),
    case("ReduceProd", A, axes=[1]),
    case("ReduceMax", A, axes=[-1], keepdims=0),
    case("ReduceMin", A, axes=[0, 2]),
    case("ReduceSum", A, ints(1), keepdims=0),
    case("ReduceSum", A, noop_with_empty_axes=1),
]


def model_of(op, arrays, opset, attributes):
    names = [f"i{index}" for index in range(len(arrays))]
    graph = helper.make_graph(
        [helper.make_node(op, names, ["y"], **attributes)],
        "g",
        [],
        [helper.make_empty_tensor_value_info("y")],
        [numpy_helper.from_array(np.asarray(array), name) for name, array in zip(names, arrays, strict=True)],
    )
    return onnx.shape_inference.infer_shapes(
        helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=8)
    )


@pytest.mark.parametrize(("op", "arrays", "opset", "attributes"), CASES)
def test_folding_agrees_with_the_runtime(op, arrays, opset, attributes):
    model = model_of(op, arrays, opset, attributes)
    view = GraphView(Model(model))
    folded = Constants(view).array(view.main.values["y"])
    expected = run(model, {})[0]
    assert op in FOLDERS
    assert folded.dtype == expected.dtype
    np.testing.assert_array_equal(folded, expected)


@pytest.mark.parametrize(
    ("op", "arrays", "attributes"),
    [
        ("Slice", (A, ints(0), ints(1), ints(7)), {}),
        ("Slice", (A, ints(0), ints(1), ints(0), ints(0)), {}),
        ("Slice", (A,), {}),
        ("Range", (np.int64(0), np.int64(HIGH), np.int64(1)), {}),
        ("Range", (np.int64(0), np.int64(1), np.int64(0)), {}),
        ("ReduceProd", (A,), {"axes": [5]}),
        ("Not", (np.array(["a"]),), {}),
    ],
)
def test_malformed_and_endless_ones_give_nothing(op, arrays, attributes):
    view = GraphView(Model(model_of(op, arrays, 17, attributes)))
    assert Constants(view).array(view.main.values["y"]) is None


@pytest.mark.parametrize(("shape", "known"), [((2, 3), True), (("n", 3), False), ((), True)])
def test_the_shape_of_an_input_is_constant_once_it_is_known(shape, known):
    graph = helper.make_graph(
        [helper.make_node("Shape", ["x"], ["s"]), helper.make_node("Size", ["x"], ["count"])],
        "g",
        [helper.make_tensor_value_info("x", 1, shape)],
        [helper.make_empty_tensor_value_info("s")],
    )
    view = GraphView(Model(helper.make_model(graph)))
    with_types, without = Constants(view, TensorTypes(view)), Constants(view)
    values = view.main.values
    assert without.array(values["s"]) is None
    assert with_types.is_constant(values["s"]) == known
    if known:
        assert with_types.array(values["s"]).tolist() == list(shape)
        assert with_types.array(values["count"]) == np.prod(shape)


def folded(op, *arrays, opset=17, **attributes):
    """What :func:`fold_node` makes of a node whose inputs are known; None for an absent one."""
    names = ["" if array is None else f"i{index}" for index, array in enumerate(arrays)]
    graph = helper.make_graph([helper.make_node(op, names, ["y"], **attributes)], "g", [], [])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)])
    return fold_node(next(GraphView(Model(model)).nodes()), [None if array is None else array for array in arrays])


def test_every_slice_of_a_short_axis_is_that_of_the_runtime():
    inputs = [helper.make_tensor_value_info(name, 7, [1]) for name in ("starts", "ends", "axes", "steps")]
    nodes = [helper.make_node("Slice", ["a", "starts", "ends", "axes", "steps"], ["y"])]
    a = numpy_helper.from_array(ints(10, 11, 12, 13), "a")
    graph = helper.make_graph(nodes, "g", inputs, [helper.make_tensor_value_info("y", 7, [None])], [a])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    session = onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    node = next(GraphView(Model(model)).nodes())
    bounds = (*range(-6, 7), LOW, HIGH)
    for start, end, step in itertools.product(bounds, bounds, (-2, -1, 1, 3)):
        if step < 0 and end == HIGH:
            continue  # empty by the specification, as NumPy has it; ONNX Runtime slices to the beginning
        given = dict(zip(("starts", "ends", "axes", "steps"), map(ints, (start, end, -1, step)), strict=True))
        expected = session.run(None, given)[0]
        found = fold_node(node, [ints(10, 11, 12, 13), *given.values()])
        assert found.tolist() == expected.tolist(), (start, end, step)


@settings(max_examples=40)
@given(
    st.integers(LOW, HIGH),
    st.integers(LOW, HIGH) | st.integers(-9, 9),
    st.sampled_from([np.int64, np.int32, np.int8, np.uint8]),
)
def test_integers_are_divided_exactly_and_truncated_toward_zero(left, right, dtype):
    info = np.iinfo(dtype)
    left, right = (max(info.min, min(value, info.max)) for value in (left, right))
    assume(right and (left, right) != (info.min, -1))
    found = folded("Div", np.array([left], dtype), np.array([right], dtype))
    assert found.dtype == dtype
    assert found.tolist() == [math.trunc(Fraction(left, right))]


def test_what_is_divided_by_zero_is_folded_for_real_numbers_alone():
    with pytest.raises(ValueError, match="an integer is divided by zero"):
        folded("Div", ints(4, 4), ints(2, 0))
    assert folded("Div", np.float32([4, -4]), np.float32([0])).tolist() == [math.inf, -math.inf]


W8 = np.arange(-20, 20, dtype=np.int8).reshape(5, 8)


@pytest.mark.parametrize(
    ("scale", "attributes", "each"),
    [
        (np.float32(0.5), {}, lambda row, column: 0.5),
        (np.float32([0.5]), {"axis": 0}, lambda row, column: 0.5),
        (np.arange(1, 9, dtype=np.float32), {}, lambda row, column: column + 1),
        (np.arange(1, 6, dtype=np.float32), {"axis": 0}, lambda row, column: row + 1),
        (np.arange(1, 6, dtype=np.float32), {"axis": -2}, lambda row, column: row + 1),
        (np.float32([[1], [2], [3], [4], [5]]), {}, lambda row, column: row + 1),
        (np.arange(1, 25, dtype=np.float32).reshape(3, 8), {"axis": 0}, lambda row, column: row // 2 * 8 + column + 1),
        (
            np.arange(1, 11, dtype=np.float32).reshape(5, 2),
            {"axis": 1, "block_size": 4},
            lambda row, column: row * 2 + column // 4 + 1,
        ),
        (
            np.arange(1, 17, dtype=np.float32).reshape(2, 8),
            {"axis": 0, "block_size": 4},
            lambda row, column: row // 4 * 8 + column + 1,
        ),
    ],
)
def test_stored_codes_are_dequantized_with_the_scale_of_their_place(scale, attributes, each):
    rows, columns = np.indices(W8.shape)
    scales = np.vectorize(each)(rows, columns)
    plain = folded("DequantizeLinear", W8, scale, opset=21, **attributes)
    assert plain.dtype == np.float32
    assert plain.tolist() == (W8 * scales).tolist()
    zero_point = np.full(scale.shape, 3, np.int8)
    shifted = folded("DequantizeLinear", W8, scale, zero_point, opset=21, **attributes)
    assert shifted.tolist() == ((W8.astype(np.int32) - 3) * scales).tolist()


def test_codes_with_one_axis_are_dequantized_in_blocks():
    scale = np.float32([1, 2, 3])
    found = folded("DequantizeLinear", np.ones(5, np.int8), scale, opset=21, axis=0, block_size=2)
    assert found.tolist() == [1, 1, 2, 2, 3]


def test_codes_of_a_bias_are_dequantized_and_other_integers_are_not():
    assert folded("DequantizeLinear", np.int32([-70000, 3]), np.float32(0.5)).tolist() == [-35000, 1.5]
    assert folded("DequantizeLinear", np.int8([3]), np.float32(0.5), None).tolist() == [1.5]
    for dtype in (np.int64, np.float32):
        with pytest.raises(ValueError, match="not a quantized type"):
            folded("DequantizeLinear", np.ones(2, dtype), np.float32(0.5))


@pytest.mark.parametrize(("output_dtype", "dtype"), [(0, np.float32), (1, np.float32), (10, np.float16)])
def test_codes_are_dequantized_to_the_type_asked_for(output_dtype, dtype):
    found = folded("DequantizeLinear", np.int8([3]), np.float32([0.5]), output_dtype=output_dtype, opset=23)
    assert (found.dtype, found.tolist()) == (dtype, [1.5])


def test_what_exceeds_the_limit_is_refused_before_it_is_made(monkeypatch):
    monkeypatch.setattr(folders, "MAX_FOLDED_ELEMENTS", 6)
    assert folded("ConstantOfShape", ints(3, 2)).size == 6
    assert folded("Expand", np.float32([1]), ints(3, 2)).size == 6
    assert folded("Range", np.int64(0), np.int64(6), np.int64(1)).size == 6
    assert folded("Gather", np.float32([[1, 2], [3, 4]]), ints(0, 1, 1)).size == 6
    assert folded("Gather", np.zeros((2, 4), np.float32), ints(0, 1)).size == 8
    assert folded("Gather", np.zeros((0, 4), np.float32), ints()).size == 0
    for op, arrays, what in (
        ("Gather", [np.float32([[1, 2], [3, 4]]), ints(0, 1, 1, 0)], "indices"),
        ("ConstantOfShape", [ints(7)], "shape"),
        ("ConstantOfShape", [ints(-1, 2)], "shape"),
        ("Expand", [np.float32([[1], [2]]), ints(4)], "shape"),
        ("Range", [np.int64(0), np.int64(7), np.int64(1)], "range"),
        ("Range", [np.int64(0), np.int64(1), np.int64(-1)], "range"),
    ):
        with pytest.raises(ValueError, match=f"the {what} (are|is) not foldable"):
            folded(op, *arrays)


def test_no_shape_however_large_is_made():
    one = numpy_helper.from_array(np.int8([1]))
    assert folded("ConstantOfShape", ints(4096, 4096), value=one).size == 1 << 24
    for op, arrays, attributes in (
        ("ConstantOfShape", [ints(4096, 4097)], {"value": one}),
        ("ConstantOfShape", [ints(1 << 32, 1 << 32)], {}),
        ("Expand", [np.int8(1), ints(1 << 31, 1 << 31)], {}),
    ):
        with pytest.raises(ValueError, match="the shape is not foldable"):
            folded(op, *arrays, **attributes)


@pytest.mark.parametrize("ends", [(ints(0), None), (None, ints(1))])
def test_a_slice_needs_both_ends(ends):
    with pytest.raises(ValueError, match="Slice needs starts and ends"):
        folded("Slice", A, *ends)


def test_old_spellings_are_folded():
    assert folded("Unsqueeze", A, opset=11, axes=[0, 4]).shape == (1, 2, 3, 4, 1)
    assert folded("Squeeze", A[:1, :1], opset=11, axes=[0]).shape == (1, 4)
    assert folded("Squeeze", A[:1, :1], None).shape == (4,)
    assert folded("Concat", A, A, opset=3).shape == (2, 6, 4)
    with pytest.raises(TypeError):
        folded("Unsqueeze", A)
