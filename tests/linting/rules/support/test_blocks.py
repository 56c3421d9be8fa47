"""Block scales are found where ONNX has them, and their legal sizes are those that give as many blocks."""

import math
import sys

import onnx
import pytest
from onnx import TensorProto as T
from onnx import helper
from support.corpus._case import node

from qdqtool.linting.rules import RuleContext
from qdqtool.linting.rules.support.blocks import blocks, vector_blocks
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
