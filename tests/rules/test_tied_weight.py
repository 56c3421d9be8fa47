"""QM604 on weights that an exporter stored twice: they are too large to be written as text."""

import numpy as np
import onnx
import pytest
from onnx import TensorProto as T
from support.corpus._case import INT8_ZERO, SCALE, graph_model, node, tensor

from qdqtool import rules, targets
from qdqtool.graph.model import Model
from qdqtool.rules import RuleContext

SIDE = 64
WEIGHT = np.random.default_rng(0).normal(size=(SIDE, SIDE)).astype(np.float32)


def two_products(second: np.ndarray) -> onnx.ModelProto:
    """MatMul with a quantized weight, then MatMul with a float one."""
    nodes = [
        node("QuantizeLinear", ["w", "s", "z"], "q"),
        node("DequantizeLinear", ["q", "s", "z"], "wd"),
        node("MatMul", ["x", "wd"], "m"),
        node("MatMul", ["m", "copy"], "y"),
    ]
    stored = [tensor("w", WEIGHT), tensor("copy", second), SCALE, INT8_ZERO]
    return graph_model(nodes, [("x", T.FLOAT, [1, SIDE])], [("y", T.FLOAT, [1, SIDE])], stored)


def told(model: onnx.ModelProto) -> list[str]:
    return [finding.message for finding in rules.get("QM604").run(RuleContext(Model(model)), targets.get("onnx"))]


def test_a_copy_that_stays_float_is_reported():
    assert told(two_products(WEIGHT)) == ["the weight 'copy' has the values of 'w', which is quantized"]


@pytest.mark.parametrize("other", [np.nextafter(WEIGHT, np.float32(9)), WEIGHT.T.copy(), -WEIGHT])
def test_other_values_are_no_copy(other: np.ndarray):
    assert not told(two_products(other))


def test_equal_weights_of_one_number_are_no_copies():
    model = two_products(np.zeros((SIDE, SIDE)))
    model.graph.initializer[0].CopyFrom(tensor("w", np.zeros((SIDE, SIDE))))

    assert not told(model)
