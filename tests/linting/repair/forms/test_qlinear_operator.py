"""Operators on codes become float operators between DQ and Q, whose codes differ by one step at most."""

import numpy as np
import onnx
import onnx.parser
import pytest
from onnx import numpy_helper
from support.small import run

from qdqtool.jobs.normalize import normalized_model
from qdqtool.linting.repair.report import Repaired
from qdqtool.models.graph.io.save import save_model
from qdqtool.models.graph.model import Model
from qdqtool.samples.request import DataRequest

CONSTANTS = {
    "xs": np.float32(0.05),
    "xz": np.uint8(120),
    "ws": np.float32(0.03),
    "wz": np.uint8(131),
    "ys": np.float32(0.11),
    "yz": np.uint8(99),
    "zero": np.uint8(0),
    "small": np.float32(1 / 256),
    "b": np.array([900, -700, 50], np.int32),
    "w33": np.arange(7, 250, 27, dtype=np.uint8).reshape(3, 3),
    "w3311": np.arange(7, 250, 27, dtype=np.uint8).reshape(3, 3, 1, 1),
    "ws3": np.float32([0.03, 0.01, 0.02]),
    "wz3": np.array([131, 131, 131], np.uint8),
    "missing": np.float32(1),
}

CASES = {
    "QLinearMatMul": ("QLinearMatMul (x, xs, xz, w33, ws, wz, ys, yz)", "3,3", "MatMul", 2),
    "QLinearMatMul columns": ("QLinearMatMul (x, xs, xz, w33, ws3, wz3, ys, yz)", "3,3", "MatMul", 2),
    "QLinearConv": ("QLinearConv (x, xs, xz, w3311, ws, wz, ys, yz)", "1,3,3,3", "Conv", 2),
    "QLinearConv bias": ("QLinearConv <strides = [2, 2]> (x, xs, xz, w3311, ws, wz, ys, yz, b)", "1,3,3,3", "Conv", 2),
    "QLinearConv channels": ("QLinearConv (x, xs, xz, w3311, ws3, wz3, ys, yz, b)", "1,3,3,3", "Conv", 2),
    "QGemm": ("com.microsoft.QGemm (x, xs, xz, w33, ws, wz, , ys, yz)", "3,3", "Gemm", 2),
    "QGemm bias": ("com.microsoft.QGemm <transA = 1> (x, xs, xz, w33, ws, wz, b, ys, yz)", "3,3", "Gemm", 2),
    "QGemm columns": ("com.microsoft.QGemm (x, xs, xz, w33, ws3, wz3, b, ys, yz)", "3,3", "Gemm", 2),
    "QGemm rows": ("com.microsoft.QGemm <transB = 1> (x, xs, xz, w33, ws3, wz3, b, ys, yz)", "3,3", "Gemm", 2),
    "QGemm alpha": ("com.microsoft.QGemm <alpha = 0.5> (x, xs, xz, w33, ws, wz, , ys, yz)", "3,3", "Gemm", 2),
    "QLinearAdd": ("com.microsoft.QLinearAdd (x, xs, xz, w33, ws, wz, ys, yz)", "3,3", "Add", 2),
    "QLinearMul": ("com.microsoft.QLinearMul (x, xs, xz, w33, ws, wz, ys, yz)", "3,3", "Mul", 2),
    "QLinearConcat": (
        "com.microsoft.QLinearConcat <axis = 1> (ys, yz, x, xs, xz, w33, ws, wz, x, ws, xz)",
        "3,3",
        "Concat",
        3,
    ),
    "QLinearSigmoid": ("com.microsoft.QLinearSigmoid (x, xs, xz, small, zero)", "3,3", "Sigmoid", 1),
    "QLinearLeakyRelu": ("com.microsoft.QLinearLeakyRelu <alpha = 0.3> (x, xs, xz, ys, yz)", "3,3", "LeakyRelu", 1),
    "QLinearAveragePool": (
        "com.microsoft.QLinearAveragePool <kernel_shape = [2, 2]> (x, xs, xz, ys, yz)",
        "1,3,3,3",
        "AveragePool",
        1,
    ),
    "QLinearGlobalAveragePool": (
        "com.microsoft.QLinearGlobalAveragePool <channels_last = 0> (x, xs, xz, ys, yz)",
        "1,3,3,3",
        "GlobalAveragePool",
        1,
    ),
    "QLinearSoftmax": (
        "com.microsoft.QLinearSoftmax <axis = -1, opset = 21> (x, xs, xz, small, zero)",
        "3,3",
        "Softmax",
        1,
    ),
    "QLinearSoftmax of opset 12, last axis": (
        "com.microsoft.QLinearSoftmax <axis = 1, opset = 12> (x, xs, xz, small, zero)",
        "3,3",
        "Softmax",
        1,
    ),
    "QLinearSoftmax of opset 12, by default": (
        "com.microsoft.QLinearSoftmax <opset = 12> (x, xs, xz, small, zero)",
        "3,3",
        "Softmax",
        1,
    ),
    "QLinearSoftmax of opset 12, by default, of three axes": (
        "com.microsoft.QLinearSoftmax <opset = 12> (x, xs, xz, small, zero)",
        "2,3,4",
        "Softmax",
        1,
    ),
    "QLinearSoftmax of opset 12, axis -1": (
        "com.microsoft.QLinearSoftmax <axis = -1, opset = 12> (x, xs, xz, small, zero)",
        "3,3",
        "Softmax",
        1,
    ),
    "QLinearSoftmax along rows": (
        "com.microsoft.QLinearSoftmax <axis = 0, opset = 13> (x, xs, xz, small, zero)",
        "3,3",
        "Softmax",
        1,
    ),
}


def model(node: str, shape: str, opset: int = 21) -> Model:
    header = f'<ir_version: 10, opset_import: ["": {opset}, "com.microsoft": 1]>'
    proto = onnx.parser.parse_model(f"{header} g (uint8[{shape}] x) => (y) {{ [it] y = {node} }}")
    words = node.replace(",", " ").replace("(", " ").replace(")", " ").split()
    for name, array in CONSTANTS.items():
        if name in words:
            proto.graph.initializer.append(numpy_helper.from_array(np.asarray(array), name))
    proto.graph.output[0].type.tensor_type.elem_type = onnx.TensorProto.UINT8
    return Model(proto)


def normalized(given: Model) -> tuple[Model, Repaired]:
    found = normalized_model(given, DataRequest(samples=2))
    return found.model, found.report


@pytest.mark.parametrize("name", CASES)
def test_the_float_operator_makes_the_same_codes(name: str, tmp_path):
    node, shape, op_type, operands = CASES[name]
    before = model(node, shape)
    after, done = normalized(before)

    assert [each.op_type for each in after.proto.graph.node] == ["DequantizeLinear"] * operands + [
        op_type,
        "QuantizeLinear",
    ]
    assert not any(each.domain for each in after.proto.graph.node)
    operator = after.proto.graph.node[-2]
    kept = {each.name for each in before.proto.graph.node[0].attribute} - {"channels_last", "opset"}
    assert operator.name == "it"
    assert {each.name for each in operator.attribute} == kept
    source = node.partition(" ")[0].removeprefix("com.microsoft.")
    assert done.changes[0].description == f"writes {source} as {op_type} between DQ and Q"
    save_model(after, tmp_path / "after.onnx")
    x = np.random.default_rng(3).integers(0, 256, [int(extent) for extent in shape.split(",")], np.uint8)
    one, other = run(before.proto, {"x": x})[0], run(str(tmp_path / "after.onnx"), {"x": x})[0]
    assert one.dtype == other.dtype
    assert one.shape == other.shape
    assert np.abs(one.astype(int) - other).max() <= 1


@pytest.mark.parametrize(
    ("node", "shape", "opset", "reason"),
    [
        (
            "com.microsoft.QLinearMul (x, xs, xz, w33, ws3, wz3, ys, yz)",
            "3,3",
            21,
            "it has several scales; a Q/DQ pair in their place can have only one",
        ),
        (
            "QLinearMatMul (x, ws3, wz3, w33, ws, wz, ys, yz)",
            "3,3",
            21,
            "it has several scales; a Q/DQ pair in their place can have only one",
        ),
        (
            "QLinearConv (x, xs, xz, w3311, ws3, wz3, ys, yz)",
            "1,3,3,3",
            12,
            "it has several scales; a Q/DQ pair in their place can have only one",
        ),
        ("com.microsoft.QGemm (x, xs, xz, w33, ws, wz)", "3,3", 21, "its output is float"),
        ("com.microsoft.QGemm (x, xs, xz, w33, ws, wz, , , yz)", "3,3", 21, "its output is float"),
        ("com.microsoft.QGemm (x, xs, xz, w33, ws, wz, , ys)", "3,3", 21, "a scale or zero point is not constant"),
        (
            "com.microsoft.QLinearSoftmax <axis = 1, opset = 12> (x, xs, xz, small, zero)",
            "",
            21,
            "its axis has another meaning at the opset of the model",
        ),
        ("com.microsoft.QGemm <alpha = 0.5> (x, xs, xz, w33, ws, wz, b, ys, yz)", "3,3", 21, "its alpha is not 1"),
        (
            "com.microsoft.QLinearAveragePool <kernel_shape = [2, 2], channels_last = 1> (x, xs, xz, ys, yz)",
            "1,3,3,3",
            21,
            "its channels are on the last axis (channels_last)",
        ),
        (
            "com.microsoft.QLinearSoftmax <axis = 0, opset = 12> (x, xs, xz, small, zero)",
            "3,3",
            21,
            "its axis has another meaning at the opset of the model",
        ),
        (
            "com.microsoft.QLinearSoftmax <axis = 0, opset = 13> (x, xs, xz, small, zero)",
            "3,3",
            12,
            "its axis has another meaning at the opset of the model",
        ),
    ],
)
def test_what_has_no_float_operator_stays(node: str, shape: str, opset: int, reason: str):
    given = model(node, shape, opset)
    after, done = normalized(given)

    assert not done.changes
    assert [refused.reason for refused in done.refused] == [reason]
    assert after.proto == given.proto


@pytest.mark.parametrize("name", ["xs", "xz", "ws", "wz", "ys", "yz"])
def test_scales_and_zero_points_have_to_be_constant(name: str):
    given = model("QLinearMatMul (x, xs, xz, w33, ws, wz, ys, yz)", "3,3")
    (tensor,) = [each for each in given.proto.graph.initializer if each.name == name]
    given.proto.graph.initializer.remove(tensor)
    given.proto.graph.input.append(onnx.helper.make_tensor_value_info(name, tensor.data_type, []))

    _, done = normalized(given)
    assert not done.changes
    assert [refused.reason for refused in done.refused] == ["a scale or zero point is not constant"]


@pytest.mark.parametrize("name", ["b", "xs", "ws"])
def test_a_bias_and_its_scales_have_to_be_constant(name: str):
    given = model("QLinearConv (x, xs, xz, w3311, ws, wz, ys, yz, b)", "1,3,3,3")
    (tensor,) = [each for each in given.proto.graph.initializer if each.name == name]
    given.proto.graph.initializer.remove(tensor)
    given.proto.graph.input.append(onnx.helper.make_tensor_value_info(name, tensor.data_type, list(tensor.dims)))

    _, done = normalized(given)
    assert not done.changes
    assert [refused.reason for refused in done.refused] == ["its bias or a scale is not constant"]


def test_other_operators_of_other_domains_stay():
    header = '<ir_version: 10, opset_import: ["": 21, "local": 1]>'
    proto = onnx.parser.parse_model(f"{header} g (float[2] x) => (float[2] y) {{ y = local.QLinearAdd (x, x) }}")
    assert not normalized(Model(proto))[1].refused


def test_other_operators_of_the_domain_stay():
    header = '<ir_version: 10, opset_import: ["": 21, "com.microsoft": 1]>'
    proto = onnx.parser.parse_model(f"{header} g (float[2] x) => (float[2] y) {{ y = com.microsoft.Gelu (x) }}")
    assert not normalized(Model(proto))[1].changes


def test_a_softmax_of_the_first_opset_along_one_axis_is_one():
    given = model("com.microsoft.QLinearSoftmax <axis = 0, opset = 13> (x, xs, xz, small, zero)", "3,3", opset=13)
    assert normalized(given)[1].changes
