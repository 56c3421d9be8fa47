"""Block scales are found where ONNX has them; their legal sizes and axes; which DQ is one of a bias."""

import math
import sys

import numpy as np
import onnx
import onnx.parser
import pytest
from onnx import TensorProto as T
from onnx import helper
from onnx.reference import ReferenceEvaluator
from support.corpus._case import node
from support.one_rule import parsed

from qdqtool.linting.rules import RuleContext
from qdqtool.linting.rules.support.blocks import blocks, is_bias, keeps_sum, vector_blocks, wrong_axis
from qdqtool.models.graph.model import Model

Extents = list[int | str | None] | None


def context_of(data: Extents, scale: Extents, **attributes: object) -> RuleContext:
    """A DQ that reads two tensors of these shapes: constants where all extents are known, else inputs."""
    inputs, stored = [], []
    for name, elem_type, shape in (("x", T.INT8, data), ("s", T.FLOAT, scale)):
        extents = [dim for dim in shape if isinstance(dim, int)] if shape is not None else None
        if extents == shape and extents is not None:
            stored.append(onnx.TensorProto(name=name, data_type=elem_type, dims=extents))
        else:
            inputs.append(helper.make_tensor_value_info(name, elem_type, shape))
    dequantize = node("DequantizeLinear", ["x", "s"], "y", **attributes)
    graph = helper.make_graph([dequantize], "g", inputs, [onnx.ValueInfoProto(name="y")], stored)
    return RuleContext(Model(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10)))


@pytest.mark.parametrize(
    ("data", "scale", "blocked"),
    [
        ([4, 6], [4, 2], (1,)),
        ([4, 6], [2, 6], (0,)),
        ([4, 6], [2, 2], (0, 1)),
        ([4, 6], [4, 6], ()),
        ([2, 4, 6], [2, 1, 6], (1,)),
        ([4, 6], [8, 6], (0,)),
        ([0, 6], [1, 6], (0,)),
        ([4, 6], [0, 6], None),
        ([0, 6], [0, 6], None),
        ([4, 6], ["n", 2], None),
        (["n", 6], [4, 2], None),
        ([4, None], [4, 2], None),
        ([4, 6], [4], None),
        ([4, 6], [2, 4, 6], None),
        ([6], [2], None),
        ([4, 6], [], None),
        ([], [], None),
        (None, [4, 2], None),
        ([4, 6], None, None),
    ],
)
def test_blocks_are_of_scales_of_the_rank_of_the_data(data: Extents, scale: Extents, blocked: tuple[int, ...] | None):
    context = context_of(data, scale, axis=0, block_size=2)

    found = list(blocks(context))

    assert [each.blocked for each in found] == ([blocked] if blocked is not None else [])
    for each in found:
        assert (list(each.shape), list(each.scale), each.entry) == (data, scale, context.qdq.nodes[0])


@pytest.mark.parametrize("extent", range(1, 14))
@pytest.mark.parametrize("count", range(1, 14))
def test_a_block_size_is_legal_where_it_gives_as_many_blocks(extent: int, count: int):
    if extent == count:
        return
    (found,) = blocks(context_of([extent, 99], [count, 99]))
    low, high = found.legal_sizes

    assert {size for size in range(1, 30) if low <= size <= high} == {
        size for size in range(1, 30) if math.ceil(extent / size) == count
    }
    assert (high == sys.maxsize) == (count == 1)


@pytest.mark.parametrize(
    ("data", "scale", "size", "legal"),
    [
        ([6], [2], 3, (3, 5)),
        ([6], [6], 1, (1, 1)),
        ([7], [2], 99, (4, 6)),
        ([6], [7], 1, None),
        ([6], [1], 6, None),
        ([6], [0], 6, None),
        ([6], [2], 0, None),
        ([6], [2], -1, None),
        ([6], ["n"], 3, None),
        (["n"], [2], 3, None),
        ([6], [], 3, None),
        ([6], [2, 1], 3, None),
        ([6, 1], [2], 3, None),
        ([], [2], 3, None),
        (None, [2], 3, None),
        ([6], None, 3, None),
    ],
)
def test_blocks_of_one_axis_need_a_block_size_and_two_scales(
    data: Extents, scale: Extents, size: int, legal: tuple[int, int] | None
):
    context = context_of(data, scale, block_size=size)

    found = vector_blocks(context, context.qdq.nodes[0])

    assert (found.legal_sizes if found is not None else None) == legal


@pytest.mark.parametrize(
    ("readers", "expected"),
    [
        ("y = Gemm (x, w, d)", True),
        ("y = Conv (x, w, d)", True),
        ("a = Gemm (x, w, d) y = Gemm (a, w, d)", True),
        ("y = Gemm (x, d, b)", False),
        ("y = Gemm (d, w, b)", False),
        ("y = MatMul (x, d)", False),
        ("y = Relu (d)", False),
        ("a = Relu (d) y = Gemm (x, w, d)", False),
        ("y = Gemm (x, w, d) a = Relu (d)", False),
        ("y = Gemm (x, d, d)", False),
        ("y = Relu (x)", False),
    ],
)
def test_the_readers_decide(readers: str, expected: bool):
    text = f"""<ir_version: 10, opset_import: ["": 21]>
        g (float[2,2] x) => (float[2,2] y)
        <int32[2] c = {{1, 2}}, float s = {{1}}, float[2,2] w = {{1, 2, 3, 4}}, float[2] b = {{1, 2}}> {{
            d = DequantizeLinear (c, s) {readers}
        }}"""
    (entry,) = RuleContext(Model(onnx.parser.parse_model(text))).qdq.nodes

    assert is_bias(entry) == expected


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
