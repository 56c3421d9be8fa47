"""Constants are read as real numbers, through Q, DQ and Transpose, in damaged and in very deep models too."""

import numpy as np
import onnx
import pytest
from onnx import TensorProto as T
from support.corpus._case import graph_model, node, tensor

from qdqtool.graph.model import Model
from qdqtool.rules import RuleContext
from qdqtool.rules.support.stored_values import StoredValues

STORED = (tensor("w", [[1, 2, 3], [4, 5, 6]], T.INT8), tensor("f", [[1, 2, 3], [4, 5, 6]]), tensor("s", 0.5))


def read(nodes: list[onnx.NodeProto], name: str, *more: onnx.TensorProto) -> np.ndarray | None:
    """Read the tensor of that name."""
    model = graph_model(nodes, [("x", T.FLOAT, [2, 3])], [("y", T.FLOAT, None)], [*STORED, *more])
    context = RuleContext(Model(model))
    return StoredValues(context).array(context.view.scopes[0].values[name])


@pytest.mark.parametrize(
    ("nodes", "factor", "turned"),
    [
        ([node("DequantizeLinear", ["w", "s"], "y")], 0.5, False),
        ([node("DequantizeLinear", ["w", "s"], "d"), node("Transpose", ["d"], "y")], 0.5, True),
        ([node("Transpose", ["w"], "t"), node("DequantizeLinear", ["t", "s"], "y")], 0.5, True),
        ([node("QuantizeLinear", ["f", "s"], "q"), node("DequantizeLinear", ["q", "s"], "y")], 1, False),
        (
            [
                node("QuantizeLinear", ["f", "s"], "q"),
                node("Transpose", ["q"], "t"),
                node("DequantizeLinear", ["t", "s"], "y"),
            ],
            1,
            True,
        ),
    ],
)
def test_codes_are_multiplied_with_their_scale_once(nodes: list[onnx.NodeProto], factor: float, turned: bool):
    expected = factor * np.array([[1, 2, 3], [4, 5, 6]])

    found = read(nodes, "y")

    assert found is not None
    np.testing.assert_array_equal(found, expected.T if turned else expected)


@pytest.mark.parametrize(
    "nodes",
    [
        [node("DequantizeLinear", ["y", "s"], "y")],
        [node("Transpose", ["y"], "y")],
        [
            node("QuantizeLinear", ["y", "s"], "q"),
            node("Transpose", ["q"], "t"),
            node("DequantizeLinear", ["t", "s"], "y"),
        ],
    ],
)
def test_a_cycle_is_no_constant(nodes: list[onnx.NodeProto]):
    assert read(nodes, "y") is None


@pytest.mark.parametrize("op_type", ["Transpose", "DequantizeLinear", "QuantizeLinear"])
def test_a_chain_of_any_length_is_followed_without_recursion(op_type: str):
    more = ["s"] if "Linear" in op_type else []
    nodes = [node(op_type, [f"t{index}" if index else "w", *more], f"t{index + 1}") for index in range(20_000)]

    assert read(nodes, "t20000") is None


@pytest.mark.parametrize("count", [1, 4, 7])
def test_a_scale_that_does_not_fit_is_not_multiplied(count: int):
    found = read([node("DequantizeLinear", ["w", "many"], "y", axis=0)], "y", tensor("many", [0.5] * count))

    assert (found is not None) == (count == 1)
