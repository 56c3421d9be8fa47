"""What is known of the quantizable operators, against ONNX's own operator definitions."""

import onnx
import pytest

from qdqtool.models import ops
from qdqtool.models.graph.index.view import GraphView, NodeView
from qdqtool.models.graph.model import Model
from qdqtool.models.ops import ProductOp, QuantizableOp
from qdqtool.numerics import formats


def node(op_type: str, inputs: int = 2, domain: str = "", **attributes: object) -> NodeView:
    proto = onnx.helper.make_node(op_type, [f"i{index}" for index in range(inputs)], ["y"], domain=domain, **attributes)
    graph = onnx.helper.make_graph([proto], "g", [], [])
    return next(GraphView(Model(onnx.helper.make_model(graph))).nodes())


@pytest.mark.parametrize(
    ("op_type", "op"), [(op_type, op) for op in ops.families() if not op.domain for op_type in op.op_types]
)
def test_the_inputs_exist_in_the_operator_schema(op_type: str, op: QuantizableOp):
    schema = onnx.defs.get_schema(op_type)
    variadic = schema.inputs[-1].option == onnx.defs.OpSchema.FormalParameterOption.Variadic
    weights = [op.weight_input, op.bias_input] if isinstance(op, ProductOp) else []

    assert all(
        index < len(schema.inputs) or variadic for index in [*op.activation_inputs, *weights] if index is not None
    )


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
        ("Einsum", {"equation": "bij,jk->bik"}, 2, 1, 0),
        ("Einsum", {"equation": "ij,kj->ik"}, 2, 0, 1),
        ("Einsum", {"equation": "ij, jk"}, 2, 1, 0),
        ("Einsum", {"equation": "...ij,...jk->...ik"}, 4, 3, 2),
        ("Einsum", {"equation": "bij,jhk->bihk"}, 3, None, 0),
        ("Einsum", {"equation": "ihk,hkj->ij"}, 3, 2, None),
        ("Einsum", {"equation": "ij,jkl->ikl"}, 2, None, None),  # no such operand
        ("Einsum", {"equation": "ij,jk->ik"}, 1, None, None),
    ],
)
def test_weight_axes(op_type: str, attributes: dict[str, int], rank: int, axis: int | None, reduced: int):
    view = node(op_type, **attributes)
    op = ops.product(view)

    assert op is not None
    assert op.weight_axis(view, rank) == axis
    assert op.reduction_axis(view, rank) == reduced


@pytest.mark.parametrize(("op_type", "inputs"), [("Conv", (0, 1)), ("Add", (0, 1)), ("AveragePool", (0,))])
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


@pytest.mark.parametrize(
    ("equation", "is_product"),
    [
        ("ij,jk->ik", True),
        ("bhid,bhjd->bhij", True),
        ("ij,j->i", True),
        ("ij,ij->ij", False),  # nothing is summed
        ("i,j->ij", False),
        ("ij,jk->", False),  # TensorRT multiplies and adds up in float
        ("ii,ij->j", False),  # a diagonal
        ("ij,jk,kl->il", False),
    ],
)
def test_an_einsum_is_a_product_when_it_multiplies_two_matrices(equation: str, is_product: bool):
    view = node("Einsum", equation.count(",") + 1, equation=equation)
    op = ops.get(view)

    assert op is not None
    assert (ops.product(view) is not None) == is_product
    assert (op.stays_float is None) == is_product


@pytest.mark.parametrize("equation", ["ij->ji", "ij->i", "...i->i...", "", 7])
def test_an_einsum_of_one_operand_or_of_none_is_no_question(equation: str | int):
    assert ops.get(node("Einsum", 1, equation=equation)) is None


@pytest.mark.parametrize(
    ("format_name", "kernel", "fits"),
    [
        ("float8e4m3fn", (4, 8), True),
        ("float8e4m3fn", (5, 7), False),
        ("float8e4m3fn", (33,), False),
        ("float8e4m3fn", (3, 3, 3), True),
        ("int8", (7, 7), True),
    ],
)
def test_kernels_of_fp8_convolutions_end_at_32_elements(format_name: str, kernel: tuple[int, ...], fits: bool):
    view = node("Conv")
    op = ops.product(view)

    assert op is not None
    assert (op.missing_kernel(view, (16, 16, *kernel), formats.get(format_name)) is None) == fits


@pytest.mark.parametrize(
    ("op_type", "domain"), [("LSTM", ""), ("Attention", ""), ("DeformConv", ""), ("FusedMatMul", "com.microsoft")]
)
def test_products_without_a_quantized_kernel_say_why(op_type: str, domain: str):
    view = node(op_type, domain=domain)
    op = ops.get(view)

    assert op is not None
    assert op.stays_float
    assert ops.product(view) is None


@pytest.mark.parametrize(("op_type", "domain"), [("Softmax", ""), ("Transpose", ""), ("Conv", "com.example")])
def test_other_operators_are_not_quantizable(op_type: str, domain: str):
    assert ops.get(node(op_type, domain=domain)) is None


def test_no_operator_belongs_to_two_families():
    names = [(family.domain, op_type) for family in ops.families() for op_type in family.op_types]

    assert len(set(names)) == len(names)
