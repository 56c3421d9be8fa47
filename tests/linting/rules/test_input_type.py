"""The rules on types say what onnx's checker says of single nodes, and what ONNX Runtime does."""

import onnx
import onnxruntime
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from onnx import TensorProto, helper

from qdqtool.jobs.validate import validate_model
from qdqtool.models.graph.model import Model

OPERATORS = {
    **dict.fromkeys(
        ["Relu", "Sqrt", "Sigmoid", "Softmax", "Not", "Transpose", "Shape", "IsNaN", "Identity", "Cast"], 1
    ),
    **dict.fromkeys(["Add", "Div", "Mod", "Pow", "MatMul", "PRelu", "And", "Equal", "Reshape", "Expand", "Gather"], 2),
    **dict.fromkeys(["Max", "Sum", "Concat", "Gemm", "LayerNormalization", "Tile", "ReduceSum"], 2),
    **dict.fromkeys(["Where", "Clip", "Range", "OneHot"], 3),
}
TYPES = [
    *(TensorProto.FLOAT, TensorProto.FLOAT16, TensorProto.DOUBLE, TensorProto.BOOL, TensorProto.UINT8),
    *(TensorProto.INT32, TensorProto.INT64, TensorProto.FLOAT8E4M3FN),
]
ATTRIBUTES = {"Concat": {"axis": 0}, "Cast": {"to": TensorProto.FLOAT16}}


def model_of(op_type: str, opset: int, types: list[int], made: int) -> onnx.ModelProto:
    names = [f"x{n}" for n in range(OPERATORS[op_type])]
    node = helper.make_node(op_type, names, ["y"], name="node", **ATTRIBUTES.get(op_type, {}))
    inputs = [helper.make_tensor_value_info(*given) for given in zip(names, types, [None] * len(names), strict=True)]
    graph = helper.make_graph([node], "g", inputs, [helper.make_tensor_value_info("y", made, None)])
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=9)


def found(model: onnx.ModelProto) -> list[tuple[str, str]]:
    findings = validate_model(Model(model), ["ort-cpu"]).findings
    return [(finding.code, finding.message) for finding in findings]


def refused_by_onnx(model: onnx.ModelProto) -> str | None:
    """Return what the part of onnx's checker says that compares types."""
    try:
        onnx.shape_inference.infer_shapes(model, check_type=True, strict_mode=True)
    except onnx.shape_inference.InferenceError as error:
        return str(error)
    return None


def refused_by_ort(model: onnx.ModelProto) -> str | None:
    """Return what ONNX Runtime says of the types; a kernel that it does not have is another matter."""
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    try:
        onnxruntime.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])
    except Exception as error:  # noqa: BLE001  ONNX Runtime has no base class of its own
        return str(error) if "Type" in str(error) else None
    return None


@given(st.data(), st.sampled_from(sorted(OPERATORS)), st.sampled_from([7, 9, 13, 19]), st.sampled_from(TYPES))
def test_they_find_what_onnx_refuses(data: st.DataObject, op_type: str, opset: int, made: int):
    assume(onnx.defs.has(op_type, domain="", max_inclusive_version=opset))
    types = data.draw(st.lists(st.sampled_from(TYPES), min_size=OPERATORS[op_type], max_size=OPERATORS[op_type]))
    if data.draw(st.booleans()):
        types = [types[0]] * len(types)
    model = model_of(op_type, opset, types, made)
    refused = refused_by_onnx(model)
    assert bool(found(model)) == bool(refused), refused
    if refused is None:
        assert refused_by_ort(model) is None


@pytest.mark.parametrize(
    ("model", "expected"),
    [
        (
            model_of("Add", 13, [TensorProto.FLOAT, TensorProto.FLOAT16], TensorProto.FLOAT),
            [("QT414", "Add takes inputs of one type; 'x0' is float32 and 'x1' is float16")],
        ),
        (
            model_of("Softmax", 13, [TensorProto.INT32], TensorProto.INT32),
            [("QT413", "Softmax at opset 13 does not accept int32 as input 'input'")],
        ),
        (
            model_of("Relu", 14, [TensorProto.INT32], TensorProto.FLOAT),
            [("QS012", "output 'y' is declared float32, but this Relu makes int32")],
        ),
        (
            model_of("Cast", 13, [TensorProto.FLOAT], TensorProto.FLOAT),
            [("QS012", "output 'y' is declared float32, but this Cast makes float16")],
        ),
        (model_of("Gather", 13, [TensorProto.FLOAT, TensorProto.INT64], TensorProto.FLOAT), []),
    ],
)
def test_the_message_names_tensors_and_types(model: onnx.ModelProto, expected: list[tuple[str, str]]):
    assert found(model) == expected


def test_codes_without_a_dq_are_told_once_and_a_dq_is_no_excuse():
    text = """
    <ir_version: 10, opset_import: ["": 21]>
    g (float[2,3] x) => (float[N,3] y, int8[2,3] z) <float s = {1}, int8 zero = {0}> {
        q = QuantizeLinear (x, s, zero)
        d = DequantizeLinear (q, s, zero)
        y = Gather (x, d)
        z = Sqrt (q)
    }
    """
    codes = [code for code, _ in found(onnx.parser.parse_model(text))]
    assert sorted(codes) == ["QL306", "QS007", "QT413"]
