"""What is known of the quantizable operators, against ONNX's own operator definitions."""

import onnx
import pytest

from qdqtool import ops
from qdqtool.graph.model import Model
from qdqtool.graph.view import GraphView, NodeView
from qdqtool.ops import QuantizableOp


def node(op_type: str, inputs: int = 2, domain: str = "", **attributes: object) -> NodeView:
    proto = onnx.helper.make_node(op_type, [f"i{index}" for index in range(inputs)], ["y"], domain=domain, **attributes)
    graph = onnx.helper.make_graph([proto], "g", [], [])
    return next(GraphView(Model(onnx.helper.make_model(graph))).nodes())


@pytest.mark.parametrize(("op_type", "op"), ops.by_op_type().items())
def test_the_inputs_exist_in_the_operator_schema(op_type: str, op: QuantizableOp):
    schema = onnx.defs.get_schema(op_type, 21)
    variadic = schema.inputs[-1].option == onnx.defs.OpSchema.FormalParameterOption.Variadic
    asked = [*op.activation_inputs, op.weight_input, op.bias_input]

    assert all(index < len(schema.inputs) or variadic for index in asked if index is not None)


@pytest.mark.parametrize(
    ("op_type", "attributes", "rank", "axis", "reduced"),
    [
        ("Conv", {}, 4, 0, 1),
        ("Conv", {}, 3, 0, 1),
        ("MatMul", {}, 2, 1, 0),
        ("MatMul", {}, 3, 2, 1),
        ("MatMul", {}, 1, None, 0),
        ("Gemm", {}, 2, 1, 0),
        ("Gemm", {"transB": 1}, 2, 0, 1),
        ("ConvTranspose", {}, 4, None, 0),
    ],
)
def test_weight_axes(op_type: str, attributes: dict[str, int], rank: int, axis: int | None, reduced: int):
    view = node(op_type, **attributes)
    op = ops.get(view)

    assert op is not None
    assert op.weighted
    assert op.weight_axis(view, rank) == axis
    assert op.reduction_axis(view, rank) == reduced


@pytest.mark.parametrize(("op_type", "inputs"), [("Conv", (0, 1)), ("Add", (0, 1)), ("MaxPool", (0,))])
def test_quantized_inputs(op_type: str, inputs: tuple[int, ...]):
    view = node(op_type)
    op = ops.get(view)

    assert op is not None
    assert op.quantized_inputs(view) == inputs


def test_every_input_of_a_concat_is_quantized():
    view = node("Concat", 3, axis=0)
    op = ops.get(view)

    assert op is not None
    assert op.quantized_inputs(view) == (0, 1, 2)


@pytest.mark.parametrize(("op_type", "domain"), [("Softmax", ""), ("Conv", "com.example")])
def test_other_operators_are_not_quantizable(op_type: str, domain: str):
    assert ops.get(node(op_type, domain=domain)) is None


def test_no_operator_belongs_to_two_families():
    families = set(ops.by_op_type().values())

    assert sum(len(family.op_types) for family in families) == len(ops.by_op_type())
