"""Scales may stand where they are factors of whole sums: said of axes, and seen in the numbers of onnx's reference."""

import numpy as np
import onnx
import pytest
from onnx import helper
from onnx.reference import ReferenceEvaluator
from support.one_rule import parsed

from qdqtool.linting.rules import RuleContext
from qdqtool.linting.rules.support.blocks import keeps_sum, wrong_axis
from qdqtool.models.graph.model import Model

PRODUCTS = {
    "MatMul": "y = MatMul (l, r)",
    "Gemm": "y = Gemm (l, r)",
    "Gemm transA": "y = Gemm <transA = 1> (l, r)",
    "Gemm transB": "y = Gemm <transB = 1> (l, r)",
    "Gemm of both": "y = Gemm <transA = 1, transB = 1> (l, r)",
    "MatMul of a Transpose": "t = Transpose <perm = [1, 0]> (r) y = MatMul (l, t)",
    "MatMul of an Identity": "t = Identity (r) y = MatMul (l, t)",
    "a Transpose times": "t = Transpose <perm = [1, 0]> (l) y = MatMul (t, r)",
}


def two_operands(
    product: str,
    left: int | None,
    right: int | None,
    *,
    kinds: str = "int8[3,3] a, int8[3,3] b",
    scale: str = "float[3]",
) -> onnx.ModelProto:
    """A product of two DQs with scales on these axes; with one scale where that is None."""
    names = [f"{side}_one" if axis is None else f"{side}_each" for side, axis in (("l", left), ("r", right))]
    return parsed(f"""
        agraph ({kinds}, float l_one, float r_one, {scale} l_each, {scale} r_each) => (float[N,M] y) {{
            l = DequantizeLinear <axis = {left or 0}> (a, {names[0]})
            r = DequantizeLinear <axis = {right or 0}> (b, {names[1]})
            {product}
        }}
    """)


def product_of(model: onnx.ModelProto):
    context = RuleContext(Model(model))
    (found,) = context.products
    return context, found


def values_of(model: onnx.ModelProto, scales: list[float]) -> np.ndarray:
    """What onnx's reference computes with these scales."""
    codes = np.arange(1, 10, dtype=np.int8).reshape(3, 3)
    one, each = np.float32(1), np.asarray(scales, np.float32)
    feeds = {"a": codes, "b": codes[::-1] + np.int8(3), "l_one": one, "r_one": one, "l_each": each, "r_each": each}
    (result,) = ReferenceEvaluator(model).run(None, feeds)
    return np.asarray(result)


@pytest.mark.parametrize("name", PRODUCTS)
@pytest.mark.parametrize("axis", [0, 1, -1, -2])
def test_a_sum_keeps_scales_that_are_a_factor_of_rows_or_columns(name: str, axis: int):
    for index, model in enumerate((two_operands(PRODUCTS[name], axis, None), two_operands(PRODUCTS[name], None, axis))):
        ratio = values_of(model, [1, 2, 3]) / values_of(model, [1, 1, 1])
        is_factor = np.ptp(ratio, axis=1 - index).max() < 1e-6

        context, product = product_of(model)
        assert keeps_sum(context, product, index) == is_factor
        assert keeps_sum(context, product, 1 - index)
        assert (wrong_axis(context, product) is None) == (is_factor or index == 0)


@pytest.mark.parametrize(
    ("name", "right", "found"),
    [
        ("MatMul", 0, (0, 1)),
        ("MatMul", -2, (0, 1)),
        ("MatMul", 1, None),
        ("MatMul", None, None),
        ("MatMul", 2, None),
        ("Gemm transB", 1, (1, 0)),
        ("MatMul of a Transpose", 1, (0, 1)),
        ("MatMul of a Transpose", 0, None),
    ],
)
def test_the_axis_and_the_one_that_kernels_take(name: str, right: int | None, found: tuple[int, int] | None):
    assert wrong_axis(*product_of(two_operands(PRODUCTS[name], None, right))) == found


@pytest.mark.parametrize(
    ("product", "more"),
    [
        ("y = MatMul (l, b)", {"kinds": "int8[3,3] a, float[3,3] b"}),
        ("n = Constant <value = int64[2] {3, 3}> () t = Reshape (r, n) y = MatMul (l, t)", {}),
        ('y = Einsum <equation = "ab,bcd->acd"> (l, r)', {"kinds": "int8[3,3] a, int8[3,3,3] b"}),
        ("y = MatMul (l, r)", {"kinds": "int8[3,3] a, int8[3] b"}),
        ("y = MatMul (l, r)", {"kinds": "int8[3,3] a, int8 b"}),
    ],
)
def test_what_has_no_axis_is_not_wrong(product: str, more: dict[str, str]):
    assert wrong_axis(*product_of(two_operands(product, 0, 0, **more))) is None


def test_the_scale_of_data_of_unknown_rank_is_not_wrong():
    model = two_operands(PRODUCTS["MatMul"], 0, 0)
    for value in model.graph.input[:2]:
        value.CopyFrom(helper.make_tensor_value_info(value.name, onnx.TensorProto.INT8, None))
    context, product = product_of(model)

    assert wrong_axis(context, product) is None
    assert [keeps_sum(context, product, index) for index in (0, 1)] == [False, False]


@pytest.mark.parametrize(
    ("product", "kept"),
    [
        # The sum is over the only axis.
        ("two = Constant <value = int64[1] {1}> () t = Unsqueeze (r, two) y = MatMul (l, t)", False),
        ("n = Constant <value = int64[2] {3, 1}> () t = Reshape (r, n) y = MatMul (l, t)", False),
        ("y = MatMul (l, r)", False),
    ],
)
def test_a_sum_over_a_vector_keeps_no_scales(product: str, kept: bool):
    context, found = product_of(two_operands(product, None, 0, kinds="int8[3,3] a, int8[3] b"))

    assert keeps_sum(context, found, 1) == kept


def test_operands_in_float_and_convolutions():
    image = {"kinds": "int8[3,3,3,3] a, int8[3,3,1,1] b"}
    context, conv = product_of(two_operands("y = Conv (l, r)", 1, 0, **image))
    assert [keeps_sum(context, conv, index) for index in (0, 1)] == [False, False]

    context, conv = product_of(two_operands("y = Conv (l, r)", None, None, **image))
    assert [keeps_sum(context, conv, index) for index in (0, 1)] == [True, True]

    context, floats = product_of(parsed("agraph (float[3,3] a, float[3,3] b) => (y) { y = MatMul (a, b) }"))
    assert [keeps_sum(context, floats, index) for index in (0, 1)] == [True, True]


def test_blocks_are_kept_by_no_sum():
    blocks = two_operands(PRODUCTS["MatMul"], 1, 1, scale="float[3,1]")
    for each in blocks.graph.node[:2]:
        each.attribute.append(helper.make_attribute("block_size", 3))
    context, product = product_of(blocks)

    assert [keeps_sum(context, product, index) for index in (0, 1)] == [False, False]
    assert wrong_axis(context, product) is None
