"""Weights on which factors are tried: views of whole ones, or some columns of the weights of a large point."""

import numpy as np
import onnx
import pytest
from onnx import helper
from support.small import make_model

from qdqtool.models.graph.index.model_index import ModelIndex
from qdqtool.models.graph.model import Model
from qdqtool.models.transforms.rescaling_points import PointKind, find_rescaling_points
from qdqtool.quantization.preparation import rescaling as module
from qdqtool.quantization.preparation.rescaling import tried_weights

K, NARROW, WIDE = 6, 4, 20
RANDOM = np.random.default_rng(2)
WEIGHTS = {
    "matmul": RANDOM.normal(size=(K, NARROW)).astype(np.float32),
    "gemm": RANDOM.normal(size=(WIDE, K)).astype(np.float32),
}
AS_INPUTS_FIRST = [WEIGHTS["matmul"], WEIGHTS["gemm"].T]


def network() -> onnx.ModelProto:
    nodes = [
        helper.make_node("LayerNormalization", ["x", "gamma"], ["n"], axis=-1),
        helper.make_node("MatMul", ["n", "matmul"], ["a"]),
        helper.make_node("Gemm", ["n", "gemm"], ["b"], transB=1),
        helper.make_node("Concat", ["a", "b"], ["y"], axis=-1),
    ]
    weights = {"gamma": np.ones(K, np.float32), **WEIGHTS}
    return make_model(nodes, {"x": (3, K)}, {"y": (3, NARROW + WIDE)}, weights, opset=21)


@pytest.mark.parametrize(
    ("most", "every"),
    [(K * (NARROW + WIDE), 1), (K * (NARROW + WIDE) - 1, 2), (K * (NARROW + WIDE) // 4, 4), (1, K * (NARROW + WIDE))],
)
def test_every_weight_of_a_joint_keeps_the_same_share_of_its_columns(most, every, monkeypatch):
    monkeypatch.setattr(module, "MOST_WEIGHTS", most)
    index = ModelIndex.of(Model(network()))
    ((point,), _) = find_rescaling_points(index, PointKind.NORM)
    found = tried_weights(point.readers)
    assert [each.shape[1] for each in found] == [-(-NARROW // every), -(-WIDE // every)]
    for each, whole in zip(found, AS_INPUTS_FIRST, strict=True):
        np.testing.assert_array_equal(each, whole[:, ::every])
