"""The rule on operators' signatures says what onnx's checker says of single nodes, and what ONNX Runtime does."""

import onnx
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from onnx import AttributeProto, TensorProto, helper

from qdqtool.jobs.validate import validate_model
from qdqtool.models.graph.model import Model

NODES = [
    *("ReduceMean", "ReduceSum", "Squeeze", "Unsqueeze", "Clip", "Slice", "Pad", "Split", "Dropout", "Reshape"),
    *("Softmax", "Concat", "Cast", "Relu", "Add", "Gemm", "Conv", "BatchNormalization", "MaxPool", "Resize", "TopK"),
    *("Gather", "Transpose", "If", "Constant", "LayerNormalization"),
]
ATTRIBUTES = {
    "axes": [1],
    "axis": 1,
    "keepdims": 0,
    "to": 1,
    "min": 0.0,
    "perm": [1, 0],
    "ratio": 0.5,
    "shape": [4],
    "foo": "bar",
    "consumed_inputs": [0],
    "epsilon": 1,
    "kernel_shape": [1, 1],
    "value_float": 1.0,
}


def model_of(node: onnx.NodeProto, opset: int) -> onnx.ModelProto:
    names = [helper.make_tensor_value_info(f"x{n}", TensorProto.FLOAT, [4, 4]) for n in range(7)]
    outputs = [helper.make_tensor_value_info(name, TensorProto.FLOAT, None) for name in node.output if name]
    graph = helper.make_graph([node], "g", names, outputs)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=10)


def found(model: onnx.ModelProto) -> list[str]:
    findings = validate_model(Model(model), ["onnx"]).findings
    return [finding.message for finding in findings if finding.code in {"QT411", "QT412"}]


@given(
    st.sampled_from(NODES),
    st.sampled_from([1, 6, 9, 11, 13, 18, 21, 24]),
    st.integers(0, 7),
    st.integers(1, 3),
    st.sets(st.sampled_from(sorted(ATTRIBUTES)), max_size=2),
    st.sets(st.sampled_from(["x0", "x1", "x2", "y0", "y1"]), max_size=2),
)
def test_it_finds_what_the_checker_refuses(
    op_type: str, opset: int, inputs: int, outputs: int, attributes: set[str], absent: set[str]
):
    given_attributes = {name: ATTRIBUTES[name] for name in attributes}
    names = [[f"{letter}{n}" for n in range(count)] for letter, count in (("x", inputs), ("y", outputs))]
    read, made = ([name if name not in absent else "" for name in group] for group in names)
    node = helper.make_node(op_type, read, made, **given_attributes)
    context = onnx.checker.C.CheckerContext()
    context.ir_version, context.opset_imports = 10, {"": opset}
    # The checker allows gaps in a variadic operand, at which ONNX Runtime ends with a segmentation fault.
    assume(op_type != "Concat" or "" not in read)
    try:
        onnx.checker.check_node(node, context)
        refused = None
    except onnx.checker.ValidationError as error:
        refused = str(error).splitlines()[0]
    assert bool(found(model_of(node, opset))) == (refused is not None), refused


@pytest.mark.parametrize(
    ("node", "opset", "message"),
    [
        (helper.make_node("Relu", ["x0"], ["y"], foo=1), 13, "Relu at opset 13 has no attribute 'foo'"),
        (helper.make_node("Softmax", ["x0"], ["y"], axis=1.0), 13, "Softmax at opset 13 has 'axis' as FLOAT"),
        (helper.make_node("Cast", ["x0"], ["y"]), 13, "Cast at opset 13 needs the attribute 'to'"),
        (helper.make_node("Add", ["x0"], ["y"]), 13, "Add at opset 13 takes 2 inputs; this one has 1"),
        (helper.make_node("Clip", [], ["y"]), 13, "Clip at opset 13 takes 1 to 3 inputs; this one has 0"),
        (
            helper.make_node("Concat", [], ["y"], axis=0),
            13,
            "Concat at opset 13 takes 1 or more inputs; this one has 0",
        ),
        (helper.make_node("Relu", ["x0"], ["y", "z"]), 13, "Relu at opset 13 takes 1 output; this one has 2"),
        (helper.make_node("Add", ["x0", ""], ["y"]), 13, "Add at opset 13 needs its input 'B'"),
        (helper.make_node("TopK", ["x0", "x1"], ["", "y"]), 13, "TopK at opset 13 needs its output 'Values'"),
        (
            helper.make_node("BatchNormalization", [f"x{n}" for n in range(5)], ["y", "m"]),
            9,
            "BatchNormalization at opset 9 takes 1 or 5 outputs; this one has 2",
        ),
        (helper.make_node("Max", ["x0", ""], ["y"]), 13, "Max at opset 13 needs its input 'data_0'"),
        (helper.make_node("Clip", ["x0", "", "x1"], ["y"]), 13, None),
        (helper.make_node("Relu", ["x0"], ["y"]), 13, None),
    ],
)
def test_the_message_says_what_is_wrong(node: onnx.NodeProto, opset: int, message: str | None):
    assert found(model_of(node, opset)) == ([message] if message else [])


def test_an_attribute_of_a_function_has_the_type_that_its_call_gives():
    """``axis`` of the node in the function stands for ``along`` of the call."""
    inner = helper.make_node("Softmax", ["a"], ["b"])
    inner.attribute.append(AttributeProto(name="axis", ref_attr_name="along"))
    model = model_of(helper.make_node("Own", ["x0"], ["y"], domain="own", along=0), 13)
    model.functions.append(
        helper.make_function("own", "Own", ["a"], ["b"], [inner], [helper.make_opsetid("", 13)], ["along"])
    )
    model.opset_import.append(helper.make_opsetid("own", 1))
    assert found(model) == []
