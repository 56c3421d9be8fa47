"""Every operator that constant folding knows, against ONNX Runtime."""

import numpy as np
import onnx
import pytest
from onnx import helper, numpy_helper
from support.small import run

from qdqtool.graph.index.constants import Constants
from qdqtool.graph.index.folders import FOLDERS
from qdqtool.graph.index.types import TensorTypes
from qdqtool.graph.index.view import GraphView
from qdqtool.graph.model import Model

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
    case("ReduceProd", ints(3, 4, 5), keepdims=0),
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
    names = [f"i{index}" for index in range(len(arrays))]
    tensors = [numpy_helper.from_array(np.asarray(array), name) for name, array in zip(names, arrays, strict=True)]
    node = helper.make_node(op, names, ["y"], **attributes)
    graph = helper.make_graph([node], "g", [], [helper.make_empty_tensor_value_info("y")], tensors)
    view = GraphView(Model(helper.make_model(graph)))
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
