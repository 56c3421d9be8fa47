"""Every operator that weights are computed with, against ONNX Runtime and exact arithmetic."""

import math
from fractions import Fraction

import numpy as np
import onnx
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from onnx import helper, numpy_helper
from support.small import run

from qdqtool.models.graph.index import folders, weight_folders
from qdqtool.models.graph.index.constants import FOLDABLE, Constants
from qdqtool.models.graph.index.view import GraphView
from qdqtool.models.graph.index.weight_folders import WEIGHT_FOLDERS
from qdqtool.models.graph.model import Model

A = np.random.default_rng(0).normal(size=(2, 3, 4)).astype(np.float32)
CODES = np.arange(-128, 128).astype(np.int8)
ZERO = np.zeros((2, 3), np.float32)


def ints(*values):
    return np.array(values, np.int64)


def case(op, *inputs, opset=17, outputs=1, **attributes):
    return pytest.param(op, inputs, opset, outputs, attributes, id=f"{op}-{opset}-{len(inputs)}-{attributes}"[:60])


CHANNELS = [np.random.default_rng(seed).uniform(0.5, 2, 3).astype(np.float32) for seed in range(4)]

CASES = [
    case("BatchNormalization", A, *CHANNELS),
    case("BatchNormalization", A, *CHANNELS, epsilon=0.25),
    case("BatchNormalization", A, *CHANNELS, opset=11),
    case("Ceil", A),
    case("Clip", A, np.float32(-0.5), np.float32(0.25)),
    case("Clip", A, None, np.float32(0.25)),
    case("Clip", A, np.float32(-0.5)),
    case("Clip", A, np.float32(0.5), np.float32(-0.5)),
    case("Clip", A, opset=10, min=-0.5, max=0.25),
    case("Clip", A, opset=10, max=0.25),
    case("Clip", CODES, np.int8(-127), np.int8(127)),
    case("Clip", CODES, np.int8(-7), np.int8(7)),
    case("Clip", CODES, None, np.int8(7)),
    case("Clip", CODES, np.int8(7), np.int8(-7)),
    case("Clip", CODES),
    case("Clip", CODES.view(np.uint8), np.uint8(1), np.uint8(254)),
    case("Floor", A),
    case("Log", np.abs(A)),
    case("LpNormalization", A),
    case("LpNormalization", A, axis=1, p=1),
    case("LpNormalization", ZERO),
    case("MatMul", A, A[0].T),
    case("MatMul", A[0, 0], A[0].T),
    case("MatMul", A[0], A[0, 0]),
    case("MatMul", A[0, 0], A[0, 1]),
    case("MatMul", A.reshape(2, 1, 3, 4), A.reshape(1, 2, 4, 3)),
    case("Mean", A, A[0], np.float32([2, 3, 4, 5])),
    case("ReduceL1", A, axes=[0, -1]),
    case("ReduceL2", A, axes=[1, 2]),
    case("ReduceL2", A, axes=[1], keepdims=0),
    case("ReduceL2", A),
    case("ReduceL2", A, ints(1, 2), opset=18),
    case("ReduceMean", A, axes=[1, 2]),
    case("ReduceMean", A, ints(-1), opset=18, keepdims=0),
    case("ReduceSumSquare", A, axes=[2]),
    case("Round", np.float32([0.5, 1.5, -0.5, 2.4])),
    case("Sigmoid", 40 * A),
    case("Sign", np.float32([-2, 0, 3])),
    case("Softmax", A),
    case("Softmax", 100 * A, axis=1),
    case("Softplus", 40 * A),
    case("Split", A, outputs=2),
    case("Split", A, ints(1, 3), outputs=2, axis=-1),
    case("Split", A, outputs=2, axis=1, opset=18, num_outputs=2),
    case("Split", A, outputs=2, axis=1, opset=11, split=[1, 2]),
    case("Sum", A, A[0], np.float32([2, 3, 4, 5])),
    case("Sum", A),
    case("Tanh", A),
    case("Tile", A, ints(1, 2, 3)),
    case("Trilu", A),
    case("Trilu", A, ints(1)[0], upper=0),
    case("Trilu", A, ints(-1)[0]),
]


def model_of(op, inputs, opset, outputs, attributes):
    names = ["" if array is None else f"i{index}" for index, array in enumerate(inputs)]
    stored = [(name, array) for name, array in zip(names, inputs, strict=True) if name]
    results = [f"y{index}" for index in range(outputs)]
    graph = helper.make_graph(
        [helper.make_node(op, names, results, **attributes)],
        "g",
        [],
        [helper.make_empty_tensor_value_info(name) for name in results],
        [numpy_helper.from_array(np.asarray(array), name) for name, array in stored],
    )
    opsets = [helper.make_opsetid("", opset)]
    return onnx.shape_inference.infer_shapes(helper.make_model(graph, opset_imports=opsets, ir_version=8))


def folded(op, *inputs, opset=17, outputs=1, **attributes):
    """Each output of a node, None where it is not folded."""
    view = GraphView(Model(model_of(op, inputs, opset, outputs, attributes)))
    constants = Constants(view)
    return [constants.array(view.main.values[f"y{index}"]) for index in range(outputs)]


@pytest.mark.parametrize(("op", "inputs", "opset", "outputs", "attributes"), CASES)
def test_folding_agrees_with_the_runtime(op, inputs, opset, outputs, attributes):
    found = folded(op, *inputs, opset=opset, outputs=outputs, **attributes)
    expected = run(model_of(op, inputs, opset, outputs, attributes), {})
    for mine, theirs in zip(found, expected, strict=True):
        assert (mine.dtype, mine.shape) == (theirs.dtype, theirs.shape)
        # ONNX Runtime sums in float32, in an order of its own.
        np.testing.assert_allclose(mine, theirs, rtol=2e-6, atol=1e-7)


def test_weights_that_are_standardized_in_training_mode_fold_and_the_statistics_do_not():
    made = folded("BatchNormalization", A, *CHANNELS, training_mode=1, outputs=3)
    expected = run(model_of("BatchNormalization", (A, *CHANNELS), 17, 3, {"training_mode": 1}), {})
    np.testing.assert_allclose(made[0], expected[0], rtol=2e-6, atol=1e-6)
    assert made[1:] == [None, None]


@pytest.mark.parametrize(("opset", "outputs", "attributes"), [(7, 1, {}), (8, 5, {}), (13, 5, {})])
def test_batch_normalization_of_old_opsets_that_may_train_is_not_folded(opset, outputs, attributes):
    made = folded("BatchNormalization", A, *CHANNELS, opset=opset, outputs=outputs, **attributes)
    assert made == [None] * outputs


def test_every_operator_has_a_case_and_none_is_evaluated_for_check():
    assert {each.values[0] for each in CASES} == set(WEIGHT_FOLDERS)
    # What check evaluates by itself must have the bits of the reference.
    assert not FOLDABLE & set(WEIGHT_FOLDERS)


SMALL = arrays(np.float32, (2, 3), elements=st.floats(-8, 8, width=16))


@settings(max_examples=40)
@given(SMALL, SMALL)
def test_sums_are_rounded_once(left, right):
    exact = [[Fraction(float(value)) for value in row] for row in left]
    others = [[Fraction(float(value)) for value in row] for row in right]
    (squares,) = folded("ReduceSumSquare", left, axes=[1], keepdims=0)
    assert squares.tolist() == [np.float32(float(sum(value * value for value in row))) for row in exact]
    (lengths,) = folded("ReduceL2", left, axes=[1], keepdims=0)
    assert lengths.tolist() == [np.float32(math.sqrt(sum(value * value for value in row))) for row in exact]
    (means,) = folded("ReduceMean", left, axes=[1], keepdims=0)
    assert means.tolist() == [np.float32(float(sum(row) / 3)) for row in exact]
    (product,) = folded("MatMul", left, right.T.copy())
    dots = [[sum(a * b for a, b in zip(row, other, strict=True)) for other in others] for row in exact]
    assert product.tolist() == [[np.float32(float(dot)) for dot in row] for row in dots]


@pytest.mark.parametrize(
    ("op", "inputs", "more"),
    [
        ("Softmax", (A,), {"opset": 12}),
        ("ReduceMean", (ints(1, 2),), {}),
        ("ReduceL2", (A, ints()), {"opset": 18, "noop_with_empty_axes": 1}),
        ("ReduceL2", (A,), {"axes": [7]}),
        ("MatMul", (A, A), {}),
        ("MatMul", (ints(1, 2), ints(1, 2)), {}),
        ("Clip", (A > 0,), {}),
        ("Clip", (CODES, ints(1)[0]), {}),
        ("Clip", (CODES, CODES), {}),
        ("LpNormalization", (A,), {"p": 3}),
        ("Tile", (A, ints(2)), {}),
        ("Tile", (A, ints(-1, 1, 1)), {}),
        ("Sigmoid", (ints(1, 2),), {}),
    ],
)
def test_what_is_malformed_or_no_float_is_not_folded(op, inputs, more):
    assert folded(op, *inputs, **more) == [None]


@pytest.mark.parametrize("sizes", [(1, 1), (1, 4), (4, -1), (3,)])
def test_parts_that_do_not_add_up_are_not_folded(sizes):
    assert folded("Split", A, ints(*sizes), outputs=2, axis=1) == [None, None]


def test_half_precision_is_rounded_from_float64():
    half = A.astype(np.float16)
    (found,) = folded("ReduceL2", half, axes=[1, 2], keepdims=0)
    exact = np.sqrt(np.square(half.astype(np.float64)).sum(axis=(1, 2)))
    assert found.dtype == np.float16
    np.testing.assert_array_equal(found, exact.astype(np.float16))


def test_what_exceeds_the_limit_is_refused_before_it_is_made(monkeypatch):
    monkeypatch.setattr(folders, "MAX_FOLDED_ELEMENTS", 36)
    column, row = np.ones((6, 1), np.float32), np.ones((1, 6), np.float32)
    assert folded("MatMul", column, row)[0].shape == (6, 6)
    assert folded("MatMul", column, np.ones((1, 7), np.float32)) == [None]
    assert folded("Tile", np.ones(6, np.float32), ints(6))[0].size == 36
    assert folded("Tile", np.ones(6, np.float32), ints(7)) == [None]
    monkeypatch.setattr(weight_folders, "MOST_PRODUCTS", 36)
    assert folded("MatMul", row, np.ones((6, 6), np.float32))[0].tolist() == [[6] * 6]
    assert folded("MatMul", np.ones((1, 7), np.float32), np.ones((7, 6), np.float32)) == [None]


def test_each_part_of_a_stored_matrix_is_a_constant_of_its_own():
    model = model_of("Split", (A,), 17, 3, {"axis": 1})
    view = GraphView(Model(model))
    constants = Constants(view)
    for index in range(3):
        value = view.main.values[f"y{index}"]
        assert constants.is_constant(value)
        np.testing.assert_array_equal(constants.array(value), A[:, index : index + 1])


def test_second_outputs_of_others_are_no_constants():
    node = helper.make_node("TopK", ["i0", "i1"], ["y0", "y1"])
    graph = helper.make_graph(
        [node],
        "g",
        [],
        [helper.make_empty_tensor_value_info("y1")],
        [numpy_helper.from_array(A, "i0"), numpy_helper.from_array(ints(1), "i1")],
    )
    view = GraphView(Model(helper.make_model(graph)))
    assert not Constants(view).is_constant(view.main.values["y1"])
