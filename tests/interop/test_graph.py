"""Each page's operation as an ONNX model: valid by onnx's checker, and run by ONNX Runtime to the same bits."""

import itertools

import ml_dtypes
import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import TensorProto, helper, numpy_helper
from onnx.reference import ReferenceEvaluator
from support import numbers
from support.trt_verdict import TrtOracle

from qdqtool.errors import ArgumentError
from qdqtool.interop import pypto, tensorrt, torch, tripy
from qdqtool.interop._graph import Dequantize, Quantize, attributes, first_opset
from qdqtool.numerics import formats
from qdqtool.numerics.granularity import Blocked, PerAxis, PerTensor

RNG = np.random.default_rng(8)
ROW = np.float32([[0, 1, 2], [3, 4, 5]])
Q8 = np.int8([[1, 2, 3], [4, 5, 6]])
X = np.float32([[[[0.56, 0.89, 1.4], [-0.56, 0.39, 6.0], [0.67, 0.11, -3.6]]]])
W = RNG.normal(size=(4, 8)).astype(np.float32) * 10
BLOCKS = np.float32([[1, 1, 2, 2, 3, 3, 4, 4], [4, 4, 5, 5, 6, 6, 7, 7]])
I4 = tripy.quantize(W, BLOCKS, "int4")
P2 = np.int8([[1, 2, 3, 4]] * 3)
P4 = RNG.integers(-128, 128, (2, 3, 4, 5)).astype(np.int8)
S4, Z4 = RNG.uniform(0.1, 1, (2, 3, 4)).astype(np.float32), RNG.integers(-100, 100, (2, 3, 4)).astype(np.float32)
THREE, TWO = [0.1, 0.2, 0.3], [0.99872, 0.96125]
ROWS = np.float32([1, 10, 100])

TRIPY = [
    (tripy, "quantize", (ROW, 0.99872, "int8")),
    (tripy, "quantize", (ROW, TWO, "int8", 0)),
    (tripy, "quantize", (ROW, [[1.0, 2.0, 3.0]], "int4")),
    (tripy, "quantize", (ROW, 0.5, "float8")),
    (tripy, "quantize", (ROW.astype(np.float16), THREE, "int8", 1)),
    (tripy, "dequantize", (np.int8([1, 2, 3]), 0.99872, "float32")),
    (tripy, "dequantize", (Q8, TWO, "float16", 0)),
    (tripy, "dequantize", (I4, BLOCKS, "float32")),
]
TENSORRT = [
    (tensorrt, "quantize", (X, np.float32([1 / 127]), "int8", 3)),
    (tensorrt, "quantize", (X, THREE, "int8", -1)),
    (tensorrt, "quantize", (W, BLOCKS, "int4")),
    (tensorrt, "dequantize", (I4, BLOCKS, "float16")),
    (tensorrt, "dequantize", (Q8, THREE, "float32", 1)),
]
PYPTO = [
    (pypto, "dequantize", (P2, ROWS, "float32", -1)),
    (pypto, "dequantize", (P2, ROWS, "float32", -1, np.float32([-2, 0, 2]))),
    (pypto, "dequantize", (P2, ROWS, "float32", -1, np.float32([-2, 0.5, 2]))),
    (pypto, "dequantize", (P2, ROWS, "float32", -1, np.float32([-128, 0, 0]))),
    (pypto, "dequantize", (P2, np.float32([1, 2, 3, 4]), "float32", -2)),
    (pypto, "dequantize", (P4, S4, "float32", -1)),
    (pypto, "dequantize", (P4, S4, "float32", -1, Z4)),
    (pypto, "dequantize", (P4, S4, "float32", -1, Z4 + np.float32(0.25))),
    (pypto, "dequantize", (P4.astype(np.int16), S4, "float32", 3, Z4)),
]


def run(piece, data):
    """The model of a piece in ONNX Runtime, its input an initializer and its output cast to float32."""
    model = piece.model(data.shape)
    onnx.checker.check_model(model, full_check=True)
    graph = model.graph
    graph.initializer.append(numpy_helper.from_array(data, "x"))
    del graph.input[:]
    graph.node.append(helper.make_node("Cast", ["y"], ["as_float"], to=1))
    del graph.output[:]
    graph.output.append(helper.make_tensor_value_info("as_float", 1, data.shape))
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    session = onnxruntime.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])
    return session.run(None, {})[0]


@pytest.mark.parametrize(("module", "name", "arguments"), [*TRIPY, *TENSORRT, *PYPTO])
def test_the_graph_computes_what_the_call_computes(module, name, arguments):
    expected = getattr(module, name)(*arguments)
    piece = getattr(module, f"{name}_graph")(*arguments)
    np.testing.assert_array_equal(run(piece, arguments[0]), expected.astype(np.float32))


def test_pypto_uses_the_plainest_nodes_that_mean_the_same():
    def operators(*arguments):
        return [part.op_type for part in pypto.dequantize_graph(*arguments).parts]

    assert operators(P2, ROWS, "float32", -1, np.float32([128, 0, 0])) == ["DequantizeLinear"]
    assert operators(P2, ROWS, "float32", -1, np.float32([-128, 0, 0])) == ["Cast", "Add", "Mul"]
    assert operators(P2, ROWS, "float32", -1, np.float32([0.5, 0, 0])) == ["Cast", "Add", "Mul"]
    blocked = pypto.dequantize_graph(P4, S4, "float32", -1)
    assert blocked.parts[0].attributes == {"axis": 3, "block_size": 5}
    assert blocked.constants["scale"].shape == (2, 3, 4, 1)


@pytest.mark.parametrize("zero", [0, 3, 128])
def test_torch_graphs_fall_on_ties_as_pytorch_does(zero):
    x = ((RNG.integers(-300, 300, (2, 500)) + 0.5) * 0.3).astype(np.float32)
    for q in (
        torch.quantize_per_tensor(x, 0.3, zero, "quint8"),
        torch.quantize_per_channel(x, [0.3, 0.7], [zero, 1], 0, "quint8"),
        torch.quantize_per_channel(x, [0.5, 0.25], [zero, 1], 0, "quint8"),
    ):
        np.testing.assert_array_equal(run(torch.quantize_graph(q), x), q.int_repr().astype(np.float32))
        np.testing.assert_array_equal(run(torch.dequantize_graph(q), q.int_repr()), q.dequantize())


def test_the_example_of_the_torch_page():
    q = torch.quantize_per_tensor([[-1.0, 0.0], [1.0, 2.0]], 0.1, 10, "quint8")
    np.testing.assert_array_equal(run(torch.dequantize_graph(q), q.int_repr()), np.float32([[-1, 0], [1, 2]]))


def test_types_that_onnx_runtime_lacks_agree_with_the_reference_evaluator():
    x = RNG.normal(size=(2, 32)).astype(np.float32) * 3
    scale = RNG.uniform(0.5, 1, (2, 2)).astype(np.float32)
    model = tensorrt.quantize_graph(x, scale, "fp4").model(x.shape)
    onnx.checker.check_model(model, full_check=True)
    codes = ReferenceEvaluator(model).run(None, {"x": x})[0]
    np.testing.assert_array_equal(codes.view(np.uint8), tensorrt.quantize(x, scale, "fp4").view(np.uint8))
    halves = tripy.dequantize_graph(Q8, 0.5, "bfloat16").model(Q8.shape)
    expected = tripy.dequantize(Q8, 0.5, "bfloat16")
    assert expected.dtype == ml_dtypes.bfloat16
    np.testing.assert_array_equal(ReferenceEvaluator(halves).run(None, {"x": Q8})[0], expected)


def test_pieces_take_a_prefix_for_their_new_names():
    piece = pypto.dequantize_graph(P2, ROWS, "float32", -1, np.float32([0.5, 0, 0]))
    nodes = piece.nodes("codes", "real", "p/")
    assert [list(node.output) for node in nodes] == [["p/step_1"], ["p/step_2"], ["real"]]
    assert nodes[1].input == ["p/step_1", "p/added"]
    assert [tensor.name for tensor in piece.initializers("p/")] == ["p/added", "p/scale"]


def test_the_opset_is_raised_only_as_far_as_needed():
    assert tripy.dequantize_graph(Q8, 1.0, "float32").opset == 13
    assert tripy.dequantize_graph(Q8, 1.0, "float16").opset == 19
    assert tripy.dequantize_graph(I4, BLOCKS, "float32").opset == 21
    assert tensorrt.dequantize_graph(Q8, 1.0, "float16").opset == 13
    assert tensorrt.dequantize_graph(Q8, np.float16(1), "float32").opset == 23


@pytest.mark.parametrize(
    "graph", [torch.quantize_graph, torch.dequantize_graph], ids=["quantize_graph", "dequantize_graph"]
)
def test_qint32_with_a_zero_point_has_no_graph(graph):
    with pytest.raises(ValueError, match=r"qint8, quint8|int32 allows only 0"):
        graph(torch.quantize_per_tensor([1.0], 1.0, 3, "qint32"))


@pytest.mark.parametrize("zero", [np.float32([-2, 0, 2]), np.float32([0.5, 0, 0])])
def test_a_pypto_graph_says_which_sign_it_used(zero):
    added = pypto.dequantize_graph(P2, ROWS, "float32", -1, zero)
    subtracted = pypto.dequantize_graph(P2, ROWS, "float32", -1, zero, zero_point_sign="subtract")
    assert "(float(input) + zero_points) * scale" in added.doc
    assert "(float(input) - zero_points) * scale" in subtracted.doc
    assert subtracted.nodes("x", "y")[0].doc_string == subtracted.doc
    assert pypto.dequantize_graph(P2, ROWS, "float32", -1).doc == ""
    np.testing.assert_array_equal(run(subtracted, P2), run(pypto.dequantize_graph(P2, ROWS, "float32", -1, -zero), P2))


@pytest.mark.builder
def test_tensorrt_for_rtx_builds_what_it_allows():
    """All of tripy's and TensorRT's own; of pypto what has neither a zero point nor int16 in a DequantizeLinear."""
    oracle = TrtOracle()
    try:
        for module, name, arguments in [*TRIPY, *TENSORRT, *PYPTO]:
            piece = getattr(module, f"{name}_graph")(*arguments)
            first = piece.parts[0]
            zero = piece.constants.get("zero_point") if "zero_point" in first.constants else None
            legal = piece.input_type != TensorProto.INT16 and (zero is None or not zero.astype(np.float32).any())
            verdict = oracle.judge(piece.model(np.shape(arguments[0])))
            assert verdict.accepted == legal, (module.__name__, name, piece.parts, verdict.stage, verdict.message)
    finally:
        oracle.close()


GRANULARITIES = [PerTensor(), PerAxis(0), PerAxis(-1), Blocked(1, 2)]
DRAWN = np.random.default_rng(4).normal(size=(3, 4)).astype(np.float32) * 3
NEWEST = onnx.defs.onnx_opset_version()


def scales(granularity, dtype=np.float32):
    drawn = numbers.scales(np.random.default_rng(5), granularity.scale_shape(DRAWN.shape), "float32")
    return np.asarray(drawn, np.float32).astype(dtype)


def evaluated(piece, data):
    """What onnx makes of a piece; its evaluator has no DequantizeLinear below opset 19."""
    model = piece.model(data.shape, max(piece.opset, 19))
    onnx.checker.check_model(model, full_check=True)
    return ReferenceEvaluator(model).run(None, {"x": data})[0]


def is_refused(piece, opset):
    """Whether onnx's checker refuses the piece at an opset."""
    try:
        onnx.checker.check_model(piece.model(DRAWN.shape, opset), full_check=True)
    except (onnx.checker.ValidationError, onnx.shape_inference.InferenceError):
        return True
    return False


FORMATS = ["int8", "uint8", "int16", "int4", "uint4", "float8e4m3fn", "float8e5m2", "float4e2m1"]
CASES = list(itertools.product(FORMATS, GRANULARITIES))


@pytest.mark.parametrize(("name", "granularity"), CASES, ids=str)
def test_the_graphs_of_both_directions_compute_what_the_calls_do(name, granularity):
    fmt, scale = formats.get(name), scales(granularity)
    zero = np.full(scale.shape, 2, fmt.dtype) if fmt.zero_point == "any" else None
    quantize = Quantize(DRAWN, scale, fmt, granularity, zero)
    codes = quantize.run()
    np.testing.assert_array_equal(evaluated(quantize.graph(), DRAWN).astype(np.float32), codes.astype(np.float32))
    dequantize = Dequantize(codes, scale, granularity, np.dtype(np.float32), fmt, zero)
    np.testing.assert_array_equal(evaluated(dequantize.graph(), codes), dequantize.run())


@pytest.mark.parametrize("output", numbers.REAL.values(), ids=str)
@pytest.mark.parametrize("scale_type", numbers.REAL.values(), ids=str)
def test_every_output_type_behind_every_scale_type_is_rounded_alike(scale_type, output):
    codes = np.arange(-6, 6, dtype=np.int8).reshape(3, 4)
    call = Dequantize(codes, scales(PerAxis(1), scale_type), PerAxis(1), np.dtype(output), formats.get("int8"))
    piece = call.graph()
    found = evaluated(piece, codes)
    assert found.dtype == output
    np.testing.assert_array_equal(found, call.run())
    cast = output != scale_type and scale_type == np.float32
    assert [part.op_type for part in piece.parts] == ["DequantizeLinear", *["Cast"] * cast]


@pytest.mark.parametrize(("name", "granularity"), CASES, ids=str)
def test_the_opset_is_the_first_that_onnx_accepts(name, granularity):
    fmt, scale = formats.get(name), scales(granularity)
    codes = np.zeros(DRAWN.shape, fmt.dtype)
    pieces = [
        Quantize(DRAWN, scale, fmt, granularity).graph(),
        Dequantize(codes, scale, granularity, np.dtype(np.float32), fmt).graph(),
    ]
    for piece in pieces:
        assert not is_refused(piece, piece.opset)
        assert piece.opset <= NEWEST
        if piece.opset > 13:  # from where on axes are known
            assert is_refused(piece, piece.opset - 1)


@pytest.mark.parametrize(("x_type", "scale_type", "opset"), [("f4", "f4", 13), ("f2", "f2", 19), ("f2", "f4", 23)])
def test_a_scale_of_another_type_than_the_values_needs_opset_23(x_type, scale_type, opset):
    call = Quantize(DRAWN.astype(x_type), scales(PerTensor(), scale_type), formats.get("int8"), PerTensor())
    assert call.graph().opset == opset
    assert not is_refused(call.graph(), opset)


def test_a_zero_point_is_always_written_when_quantizing_and_only_if_given_when_dequantizing():
    fmt, scale = formats.get("int16"), scales(PerTensor())
    piece = Quantize(DRAWN, scale, fmt, PerTensor()).graph()
    assert piece.constants["zero_point"].dtype == np.int16
    assert (piece.input_type, piece.output_type) == (TensorProto.FLOAT, TensorProto.INT16)
    codes = np.zeros(DRAWN.shape, np.int16)
    assert list(Dequantize(codes, scale, PerTensor(), np.dtype(np.float32), fmt).graph().constants) == ["scale"]


def test_axes_are_counted_from_the_front():
    assert attributes(PerTensor(), 3) == {}
    assert attributes(PerAxis(-1), 3) == {"axis": 2}
    assert attributes(Blocked(-2, 16), 3) == {"axis": 1, "block_size": 16}
    with pytest.raises(ArgumentError, match="axis is 3"):
        attributes(PerAxis(3), 3)


@pytest.mark.parametrize(
    ("granularity", "dtype", "opset"),
    [(PerTensor(), "f4", 13), (PerAxis(0), "f2", 19), (Blocked(0, 2), "f4", 21), (Blocked(0, 2), "f2", 21)],
)
def test_granularities_and_scale_types_have_a_first_opset(granularity, dtype, opset):
    assert first_opset(granularity, np.ones((1, 1), dtype)) == opset
