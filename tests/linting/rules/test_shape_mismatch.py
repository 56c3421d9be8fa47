"""The rule on shapes says what onnx's shape inference says, of the node that it says it of."""

import onnx
import pytest
from onnx import FunctionProto, NodeProto, TensorProto, helper
from support.ort_verdict import ort_refuses

from qdqtool.jobs.validate import validate_model
from qdqtool.models.graph.model import Model

FLOAT = TensorProto.FLOAT
MATMUL = "Incompatible dimensions for matrix multiplication"


def model_of(*nodes: NodeProto, functions: tuple[FunctionProto, ...] = (), **shapes: list[int]) -> onnx.ModelProto:
    """Return a model with inputs of these shapes, and with what the last node makes as output."""
    inputs = [helper.make_tensor_value_info(name, FLOAT, shape) for name, shape in shapes.items()]
    shape = [f"open{axis}" for axis in range(len(shapes["x"]))]
    output = helper.make_tensor_value_info(nodes[-1].output[0], FLOAT, shape)
    graph = helper.make_graph(nodes, "g", inputs, [output])
    graph.initializer.append(helper.make_tensor("five", TensorProto.INT64, [1], [5]))
    opsets = [helper.make_opsetid("", 19), helper.make_opsetid("own", 1)]
    return helper.make_model(graph, opset_imports=opsets, ir_version=9, functions=functions)


def node(op_type: str, *inputs: str, output: str = "y", **attributes: object) -> NodeProto:
    return helper.make_node(op_type, inputs, [output], **attributes)


def found(model: onnx.ModelProto, target: str = "ort-cpu") -> list[tuple[str | None, str]]:
    findings = validate_model(Model(model), [target]).findings
    return [(finding.node, finding.message.removeprefix("shape inference: ")) for finding in findings]


@pytest.mark.parametrize(
    ("model", "expected"),
    [
        (model_of(node("MatMul", "x", "w"), x=[2, 3], w=[4, 5]), MATMUL),
        (model_of(node("MatMul", "x", "w"), x=[2, 3], w=[3, 5]), None),
        (model_of(node("Add", "x", "w"), x=[2, 3], w=[4, 3]), "Incompatible dimensions"),
        (model_of(node("Add", "x", "w"), x=[2, 3], w=[1, 3]), None),
        (model_of(node("Gemm", "x", "w"), x=[2, 3], w=[4, 5]), "Dimension mismatch in unification between 4 and 3"),
        (model_of(node("Gemm", "x", "w"), x=[2, 3, 1], w=[3, 5]), "Input 0 expected to have rank 2 but has rank 3"),
        (model_of(node("Softmax", "x", axis=2), x=[2, 3]), "'axis' must be in [-2 , 1]. Its actual value is: 2"),
        (model_of(node("Softmax", "x", axis=-2), x=[2, 3]), None),
        (model_of(node("Transpose", "x", perm=[0, 0]), x=[2, 3]), "Attribute perm for Transpose has repeated value: 0"),
        (model_of(node("Squeeze", "x", "five"), x=[2, 3]), "Unexpected axis value: 5. Expected range [-2, 2)"),
    ],
)
def test_it_says_what_onnx_and_onnx_runtime_refuse(model: onnx.ModelProto, expected: str | None):
    said = [] if expected is None else [(f"{model.graph.node[0].op_type} -> y", expected)]
    assert found(model, "onnx") == found(model, "ort-cpu") == said
    assert (ort_refuses(model) is not None) == (expected is not None)
    if expected is not None:
        with pytest.raises(onnx.shape_inference.InferenceError):
            onnx.checker.check_model(model, full_check=True)


@pytest.mark.parametrize("shape", [[2, 4], [2, 3, 1]])
def test_onnx_runtime_corrects_a_wrong_declaration(shape: list[int]):
    model = model_of(node("Relu", "x"), x=[2, 3])
    model.graph.output[0].CopyFrom(helper.make_tensor_value_info("y", FLOAT, shape))
    assert found(model, "ort-cpu") == []
    assert ort_refuses(model) is None
    ((name, text),) = found(model, "onnx")
    assert name == "Relu -> y"
    assert text.startswith("Inferred shape and existing shape differ in ")


def test_onnx_runtime_goes_on_with_what_it_corrected():
    """``m`` is declared with two axes and has one, so that the Softmax has no axis 1."""
    model = model_of(node("Squeeze", "x", output="m"), node("Softmax", "m", axis=1), x=[1, 3])
    model.graph.value_info.append(helper.make_tensor_value_info("m", FLOAT, [1, 3]))
    assert [name for name, _ in found(model, "onnx")] == ["Squeeze -> m"]
    assert [name for name, _ in found(model, "ort-cpu")] == ["Softmax -> y"]
    assert ort_refuses(model) is not None


def test_what_follows_from_a_fault_is_not_another_one():
    """The second MatMul has an input without a type, since the first one makes nothing."""
    model = model_of(node("MatMul", "x", "w", output="m"), node("MatMul", "m", "w"), x=[2, 3], w=[4, 5])
    assert found(model) == [("MatMul -> m", MATMUL)]


def test_each_fault_has_its_node():
    names = node("MatMul", "x", "w", output="m", name="a (b): c"), node("Softmax", "x", axis=2, name="")
    assert [name for name, _ in found(model_of(*names, x=[2, 3], w=[4, 5]))] == ["a (b): c", "Softmax -> y"]


def test_a_fault_in_a_branch_belongs_to_the_node_there():
    made = [helper.make_tensor_value_info("b", FLOAT, ["n", "m"])]
    good = helper.make_graph([node("Identity", "x", output="b")], "good", [], made)
    bad = helper.make_graph([node("MatMul", "x", "w", output="b")], "bad", [], made)
    model = model_of(node("If", "c", then_branch=good, else_branch=bad), x=[2, 3], w=[4, 5])
    model.graph.input.append(helper.make_tensor_value_info("c", TensorProto.BOOL, []))
    assert found(model) == [("MatMul -> b", MATMUL)]


def test_a_fault_in_a_function_belongs_to_the_node_there():
    body = [node("Relu", "a", output="r"), node("MatMul", "r", "b", output="c")]
    function = helper.make_function("own", "Own", ["a", "b"], ["c"], body, [helper.make_opsetid("", 19)])
    model = model_of(node("Own", "x", "w", domain="own"), functions=(function,), x=[2, 3], w=[4, 5])
    assert found(model) == [("MatMul -> c", MATMUL)]


def test_a_body_that_onnx_gives_to_an_operator_is_no_fault_of_the_model():
    """onnx's inference fails in its own body of MeanVarianceNormalization; ONNX Runtime runs it."""
    model = model_of(node("MeanVarianceNormalization", "x"), x=[2, 3, 4, 4])
    with pytest.raises(onnx.shape_inference.InferenceError):
        onnx.shape_inference.infer_shapes(model, strict_mode=True)
    assert found(model) == []
    assert ort_refuses(model) is None
