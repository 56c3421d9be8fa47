"""Fixes of constants that are broken are refused with the reason, and the rest of the model is fixed."""

import numpy as np
import onnx
import pytest
from onnx import TensorProto as T
from support.corpus._case import graph_model, node, tensor

from qdqtool.graph.model import Model
from qdqtool.jobs.fix import FixRequest, fix_model
from qdqtool.linting.policy import Policy


def reasons(model: onnx.ModelProto, code: str) -> set[str]:
    policy = Policy(targets=("tensorrt",), select=(code,))
    report = fix_model(Model(model), FixRequest(policy=policy, unsafe=True)).report
    assert not report.changes
    return {refused.reason for refused in report.refused}


@pytest.mark.parametrize(("shape", "axis"), [([], 0), ([], 1), ([8], 1), ([8], -2), ([2, 8], 5)], ids=str)
def test_an_axis_that_the_tensor_has_not_is_a_reason_not_to_fix(shape: list[int], axis: int):
    model = graph_model(
        [
            node("QuantizeLinear", ["x", "s", "z"], "q", axis=axis),
            node("DequantizeLinear", ["q", "s", "z"], "d", axis=axis),
            node("Identity", ["d"], "y"),
        ],
        [("x", T.FLOAT, shape)],
        [("y", T.FLOAT, shape)],
        [tensor("s", np.zeros(0)), tensor("z", np.zeros(0), T.INT8)],
    )
    assert reasons(model, "QA202") == {"its scale or zero point does not fit the shape of the data"}


def test_an_int32_weight_is_not_quantized_again():
    weight = np.arange(32).reshape(8, 4)
    model = graph_model(
        [node("DequantizeLinear", ["w", "s"], "d", axis=0), node("MatMul", ["x", "d"], "y")],
        [("x", T.FLOAT, [2, 8])],
        [("y", T.FLOAT, [2, 4])],
        [tensor("w", weight, T.INT32), tensor("s", np.full(8, 0.1))],
    )
    assert reasons(model, "QA201") == {"nothing is quantized to int32"}
