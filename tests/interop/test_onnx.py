"""ONNX's operators by opset, against onnx's own backend cases, the ReferenceEvaluator and ONNX Runtime."""

import ml_dtypes
import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import helper, numpy_helper
from onnx.reference import ReferenceEvaluator
from support.onnx_cases import backend_cases

from qdqtool.errors import ArgumentError
from qdqtool.interop import onnx as ours
from qdqtool.numerics import affine, formats
from qdqtool.numerics.granularity import Blocked, PerAxis, PerTensor

OPERATORS = {"QuantizeLinear": ours.quantize_linear, "DequantizeLinear": ours.dequantize_linear}
X = np.float32([[0.5, 1.5, -300], [2.5, 9, 300]])
F16 = np.float16
BF16, E8M0 = ml_dtypes.bfloat16, ml_dtypes.float8_e8m0fnu


def cases():
    return [case for op_type in OPERATORS for case in backend_cases(op_type)]


def arrays(values):
    return [numpy_helper.to_array(v) if isinstance(v, onnx.TensorProto) else np.asarray(v) for v in values]


def attributes(node):
    return {a.name: helper.get_attribute_value(a) for a in node.attribute}


def test_there_are_cases():
    assert len(cases()) >= 25


@pytest.mark.parametrize("case", cases(), ids=lambda case: case.name)
def test_every_case_of_onnx_s_backend_suite(case):
    node = case.model.graph.node[0]
    for inputs, outputs in case.data_sets:
        result = OPERATORS[node.op_type](*arrays(inputs), **attributes(node))
        expected = arrays(outputs)[0]
        assert result.dtype == expected.dtype
        np.testing.assert_array_equal(result.astype(np.float32), expected.astype(np.float32))


ORT_LACKS = {
    "test_quantizelinear_float4e2m1": "ONNX Runtime's CPU provider has no float4e2m1",
    "test_dequantizelinear_float4e2m1": "ONNX Runtime's CPU provider has no float4e2m1",
}


@pytest.mark.parametrize("case", cases(), ids=lambda case: case.name)
def test_onnx_runtime_agrees_on_the_same_cases_stamped_down(case):
    model = onnx.ModelProto()
    model.CopyFrom(case.model)
    model.opset_import[0].version, model.ir_version = 25, 11
    node = model.graph.node[0]
    inputs = case.data_sets[0][0]
    if case.name in ORT_LACKS:
        with pytest.raises(Exception, match=r"NOT_IMPLEMENTED|INVALID"):
            session(model)
        return
    result = OPERATORS[node.op_type](*arrays(inputs), **attributes(node), opset=25)
    np.testing.assert_array_equal(run(model, arrays(inputs)), result.astype(np.float32))


def session(model):
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    options.log_severity_level = 4
    return onnxruntime.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])


def run(model, inputs):
    """The first output as float32; inputs become initializers and outputs are cast, since feeds know no small types."""
    changed = onnx.ModelProto()
    changed.CopyFrom(model)
    graph = changed.graph
    kept = list(graph.input)
    del graph.input[:]
    for info, array in zip(kept, inputs, strict=True):
        graph.initializer.append(numpy_helper.from_array(array, info.name))
    graph.node.append(helper.make_node("Cast", [graph.output[0].name], ["as_float"], to=1))
    del graph.output[:]
    graph.output.append(helper.make_tensor_value_info("as_float", 1, None))
    return session(changed).run(None, {})[0]


def model_of(op_type, inputs, opset, **attrs):
    """A model of one node, with its inputs as graph inputs."""
    names = ["x", "scale", "zero"][: len(inputs)]
    infos = [
        helper.make_tensor_value_info(name, helper.np_dtype_to_tensor_dtype(array.dtype), array.shape)
        for name, array in zip(names, inputs, strict=True)
    ]
    node = helper.make_node(op_type, names, ["y"], **attrs)
    graph = helper.make_graph([node], "g", infos, [helper.make_tensor_value_info("y", 0, None)])
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=10)


RUNNABLE = [
    *((name, 21 if formats.get(name).bits in (4, 16) else 19) for name in ("int8", "uint8", "int16", "uint16", "int4")),
    *((name, 19) for name in ("float8e4m3fn", "float8e4m3fnuz", "float8e5m2", "float8e5m2fnuz")),
    ("uint4", 21),
    ("int2", 25),
    ("uint2", 25),
]


@pytest.mark.parametrize("kind", ["tensor", "axis", "block"])
@pytest.mark.parametrize(("name", "first"), RUNNABLE)
def test_onnx_runtime_agrees_wherever_it_is_right(name, first, kind):
    """Random values and ties in float32, inside what ONNX Runtime gets right, quantized and dequantized."""
    fmt, rng = formats.get(name), np.random.default_rng(11)
    shape = {"tensor": (), "axis": (6,), "block": (4, 2)}[kind]
    attrs = {"tensor": {}, "axis": {"axis": 1}, "block": {"axis": 1, "block_size": 4}}[kind]
    scale = rng.uniform(0.01, 1, shape).astype(np.float32)
    zero = np.zeros(shape, fmt.dtype)
    if fmt.zero_point == "any":
        zero = rng.integers(int(fmt.low), int(fmt.high) + 1, shape)
        zero = np.asarray(zero).astype(np.int32).astype(fmt.dtype)
    x = (rng.integers(-3 * int(fmt.high), 3 * int(fmt.high), (4, 6)) / 2 * 0.1).astype(np.float32)
    opset = max(first, 21 if kind == "block" else 13)
    codes = ours.quantize_linear(x, scale, zero, opset=opset, **attrs)
    found = run(model_of("QuantizeLinear", (x, scale, zero), opset, **attrs), (x, scale, zero))
    np.testing.assert_array_equal(codes.astype(np.float32), found)
    real = ours.dequantize_linear(codes, scale, zero, opset=opset, **attrs)
    found = run(model_of("DequantizeLinear", (codes, scale, zero), opset, **attrs), (codes, scale, zero))
    np.testing.assert_array_equal(real, found)


@pytest.mark.parametrize("kind", ["tensor", "axis", "block"])
@pytest.mark.parametrize(("name", "first"), RUNNABLE)
def test_onnx_runtime_agrees_on_float16_when_the_quotient_is_float32(name, first, kind):
    """ONNX Runtime divides float16 in float32; with that as the division precision the codes are the same."""
    fmt, rng = formats.get(name), np.random.default_rng(21)
    granularity = {"tensor": PerTensor(), "axis": PerAxis(1), "block": Blocked(1, 4)}[kind]
    attrs = {"tensor": {}, "axis": {"axis": 1}, "block": {"axis": 1, "block_size": 4}}[kind]
    scale = np.asarray(rng.uniform(0.01, 1, granularity.scale_shape((4, 6)))).astype(F16)
    zero = np.zeros(scale.shape, fmt.dtype)
    x = (rng.normal(size=(4, 6)) * min(fmt.high, 1000) * 0.1).astype(F16)
    opset = max(first, 21 if kind == "block" else 19)
    codes = affine.quantize(x, scale, fmt, granularity, zero, precision=np.float32)
    found = run(model_of("QuantizeLinear", (x, scale, zero), opset, **attrs), (x, scale, zero))
    np.testing.assert_array_equal(codes.astype(np.float32), found)
    real = ours.dequantize_linear(codes, scale, zero, opset=opset, **attrs)
    found = run(model_of("DequantizeLinear", (codes, scale, zero), opset, **attrs), (codes, scale, zero))
    np.testing.assert_array_equal(real.astype(np.float32), found)


@pytest.mark.parametrize("scale", [np.float32(0.1), np.float16(0.1)])
@pytest.mark.parametrize("output", [1, 10])
def test_onnx_runtime_agrees_on_int32_and_on_outputs_of_another_type(scale, output):
    rng = np.random.default_rng(22)
    for codes in (rng.integers(-(2**31), 2**31, 500).astype(np.int32), rng.integers(-128, 128, 500).astype(np.int8)):
        inputs = (codes, np.asarray(scale))
        with np.errstate(over="ignore"):
            real = ours.dequantize_linear(*inputs, output_dtype=output, opset=23)
        found = run(model_of("DequantizeLinear", inputs, 23, output_dtype=output), inputs)
        np.testing.assert_array_equal(real.astype(np.float32), found)


EXPECTED_DIFFERENCES = [
    # what, x, scale, zero point, attributes, opset, ours, ONNX Runtime's
    ("float16 is divided in float32", F16([4.5]), F16(0.0687), np.int8(0), {}, 21, 66, 65),
    ("precision is ignored", np.float32([8.948]), np.float32(0.1), np.int8(0), {"precision": 10}, 23, 90, 89),
    ("+inf of float16 wraps", F16([np.inf]), F16(1), np.int8(0), {}, 21, 127, -128),
    ("-inf of float16 with a negative zero point wraps", F16([-np.inf]), F16(1), np.int8(-1), {}, 21, -128, 127),
    ("the last of an odd count wraps", np.float32([3e9]), np.float32(1), np.array(0, ml_dtypes.int4), {}, 21, 7, -8),
    ("int2 wraps", np.float32([3e9] * 2), np.float32(1), np.array(0, ml_dtypes.int2), {}, 25, 1, -2),
]


@pytest.mark.parametrize(
    ("x", "scale", "zero", "attrs", "opset", "expected", "theirs"),
    [row[1:] for row in EXPECTED_DIFFERENCES],
    ids=[row[0] for row in EXPECTED_DIFFERENCES],
)
def test_expected_differences_from_onnx_runtime(x, scale, zero, attrs, opset, expected, theirs):  # noqa: PLR0917
    inputs = (x, np.asarray(scale), np.asarray(zero))
    assert ours.quantize_linear(*inputs, **attrs, opset=opset)[-1] == expected
    assert run(model_of("QuantizeLinear", inputs, opset, **attrs), inputs)[-1] == theirs


@pytest.mark.parametrize(
    ("name", "x", "exact", "theirs"), [("float8e4m3fn", 485.0, np.nan, 448.0), ("float8e5m2", 62000.0, np.inf, np.nan)]
)
def test_onnx_runtime_differs_just_above_the_fp8_range_without_saturation(name, x, exact, theirs):
    inputs = (np.float32([x]), np.asarray(np.float32(1)), np.zeros((), formats.get(name).dtype))
    codes = ours.quantize_linear(*inputs, saturate=0, opset=21)
    np.testing.assert_array_equal(codes.astype(np.float32), np.float32([exact]))
    found = run(model_of("QuantizeLinear", inputs, 21, saturate=0), inputs)
    np.testing.assert_array_equal(found, np.float32([theirs]))


REFERENCE_ONLY = ["float4e2m1", "float6e2m3", "float6e3m2"]


@pytest.mark.parametrize("name", REFERENCE_ONLY)
def test_formats_that_only_the_reference_evaluator_runs(name):
    fmt = formats.get(name)
    x = np.random.default_rng(3).normal(size=(4, 32)).astype(np.float32) * 4
    scale = np.random.default_rng(4).uniform(0.1, 1, (4, 2)).astype(np.float32)
    model = model_of("QuantizeLinear", (x, scale), 28, axis=1, block_size=16, output_dtype=fmt.onnx_type)
    expected = ReferenceEvaluator(model).run(None, {"x": x, "scale": scale})[0]
    codes = ours.quantize_linear(x, scale, axis=1, block_size=16, output_dtype=fmt.onnx_type)
    np.testing.assert_array_equal(codes.view(np.uint8), expected.view(np.uint8))


def test_defaults_are_those_of_the_operators():
    codes = ours.quantize_linear(X, np.float32([1, 1, 1]))
    np.testing.assert_array_equal(codes, [[0, 2, 0], [2, 9, 255]])
    assert codes.dtype == np.uint8
    assert ours.dequantize_linear(codes, np.float16(0.5)).dtype == np.float16
    assert ours.dequantize_linear(codes, E8M0(0.5), output_dtype=16).dtype == BF16


def test_partial_last_blocks_are_legal():
    codes = ours.quantize_linear(X, np.float32([[1, 10], [1, 100]]), np.zeros((2, 2), np.int8), axis=1, block_size=2)
    np.testing.assert_array_equal(codes, [[0, 2, -30], [2, 9, 3]])


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: ours.quantize_linear(X, np.float32([1, 1, 1]), opset=10), r"a scale of shape \[3\] needs opset 13"),
        (
            lambda: ours.quantize_linear(X, 1.0, output_dtype="int4", opset=19),
            "output_dtype needs opset 21; opset is 19",
        ),
        (lambda: ours.quantize_linear(X, 1.0, np.int16(0), opset=19), "int16 needs opset 21; opset is 19"),
        (lambda: ours.quantize_linear(X, 1.0, output_dtype="float6e2m3", opset=25), "float6e2m3 needs opset 28"),
        (
            lambda: ours.quantize_linear(X, F16(1), opset=21),
            "x of type float32 with y_scale of type float16 needs opset 23",
        ),
        (lambda: ours.quantize_linear(X.astype(F16), F16(1), opset=13), "x of type float16 needs opset 19"),
        (lambda: ours.quantize_linear(X, E8M0(1), opset=23), "y_scale of type float8_e8m0fnu needs opset 24"),
        (lambda: ours.quantize_linear(X, 1.0, saturate=0, opset=13), "saturate needs opset 19"),
        (lambda: ours.quantize_linear(X, 1.0, precision=1, opset=21), "precision needs opset 23"),
        (lambda: ours.quantize_linear(X, 1.0, precision=7), "precision is 7; legal: 1, 10, 16"),
        (lambda: ours.quantize_linear(X, 1.0, opset=29), "opset is 29; legal: 10 to 28"),
        (lambda: ours.quantize_linear(X, 1.0, output_dtype=1), "output_dtype is 1; it is not a quantized type"),
        (lambda: ours.quantize_linear(X, 1.0, np.int8(0), output_dtype="int4"), "output_dtype is int4 and .* int8"),
        (lambda: ours.quantize_linear(X, 1.0, np.int32(0)), "int32 is not a legal quantized type here"),
        (lambda: ours.quantize_linear(X, [1, 2], axis=3), "axis is 3; a tensor of rank 2 has axes -2 to 1"),
        (lambda: ours.quantize_linear(X, [1, 2], axis=1), r"scale has shape \[2\].*needs \[3\]"),
        (lambda: ours.quantize_linear(X, [1, 2, 3], np.int8(0)), r"zero_point has shape \[\].*\[3\]"),
        (lambda: ours.quantize_linear(X, np.ones((2, 2))), "block_size is 0; a scale of shape"),
        (
            lambda: ours.quantize_linear(X, np.ones((2, 2)), block_size=3),
            "block_size is 3; 2 blocks .* of 3 need 2 to 2",
        ),
        (lambda: ours.dequantize_linear(np.int8([1]), 1.0, np.uint8(0)), "x_zero_point has type uint8, not .* int8"),
        (lambda: ours.dequantize_linear(np.int32([1]), 1.0, np.int32(2)), "x_zero_point is not 0; int32 allows only 0"),
        (lambda: ours.dequantize_linear(np.int8([1]), E8M0(1)), "output_dtype is missing"),
        (lambda: ours.dequantize_linear(np.int8([1]), 1.0, output_dtype=10, opset=21), "output_dtype needs opset 23"),
        (lambda: ours.dequantize_linear(X, 1.0), "q has type float32; legal: float4e2m1"),
    ],
)
def test_illegal_calls_name_argument_value_and_legal_values(call, message):
    with pytest.raises(ArgumentError, match=message):
        call()
