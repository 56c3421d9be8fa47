"""Multiply-accumulates of a product. ``tests/accuracy/layers/test_costs.py`` counts each operator by its definition."""

import pytest
from support.engine_models import conv, matmul

from qdqtool.models.graph.index.model_index import ModelIndex
from qdqtool.models.graph.index.view import NodeView
from qdqtool.models.graph.model import Model
from qdqtool.models.ops.support.weights import multiply_accumulates


def node_of(index: ModelIndex, op_type: str) -> NodeView:
    return next(node for node in index.view.nodes() if node.op_type == op_type)


@pytest.mark.parametrize(
    ("model", "op_type", "expected"),
    [
        (conv(), "Conv", 16 * 6 * 6 * 16 * 3 * 3),
        (conv(op_type="ConvTranspose"), "ConvTranspose", 16 * 8 * 8 * 16 * 3 * 3),
        (matmul(), "MatMul", 8 * 64 * 32),
        (matmul(op_type="Gemm", axis=0, transB=1), "Gemm", 8 * 64 * 32),
        (matmul(), "DequantizeLinear", None),
    ],
)
def test_shapes_give_the_count(model, op_type, expected):
    index = ModelIndex.of(Model(model))
    assert multiply_accumulates(node_of(index, op_type), index.types.full_shape) == expected


@pytest.mark.parametrize(("op_type", "needed"), [("Conv", {"y", "w_d"}), ("ConvTranspose", {"x_d", "w_d"})])
def test_a_shape_that_is_needed_and_open_leaves_the_count_open(op_type, needed):
    index = ModelIndex.of(Model(conv(op_type=op_type)))
    node = node_of(index, op_type)
    for tensor in ("x_d", "w_d", "y"):
        found = multiply_accumulates(
            node, lambda value, tensor=tensor: None if value.name == tensor else index.types.full_shape(value)
        )
        assert (found is None) is (tensor in needed)
