"""A fix that takes a pair away puts back the Relu or Clip whose work its range did."""

import numpy as np
import onnx
import pytest
from onnx import helper
from support.small import make_model, run

from qdqtool.graph.model import Model
from qdqtool.jobs.fix import FixRequest, fix_model
from qdqtool.linting.policy import Policy


def half_quantized(scale: float, zero_point: np.generic, opset: int) -> onnx.ModelProto:
    """x -> MatMul(w) -> Q -> DQ -> MatMul(x) -> y: one operand of the second product is quantized."""
    nodes = [
        helper.make_node("MatMul", ["x", "w"], ["m"]),
        helper.make_node("QuantizeLinear", ["m", "s", "z"], ["q"], name="bounds"),
        helper.make_node("DequantizeLinear", ["q", "s", "z"], ["d"]),
        helper.make_node("MatMul", ["d", "x"], ["y"], name="product"),
    ]
    constants = {"w": np.eye(4, dtype=np.float32), "s": np.float32(scale), "z": np.asarray(zero_point)}
    return make_model(nodes, {"x": (4, 4)}, {"y": (4, 4)}, constants, opset=opset)


@pytest.mark.parametrize("opset", [10, 17])
@pytest.mark.parametrize(
    ("scale", "zero_point", "bounds"),
    [
        (0.07, np.uint8(0), (0, np.inf)),
        (6 / 255, np.uint8(0), (0, 6)),
        (2 / 255, np.int8(0), (-1, 1)),
        (0.07, np.int8(0), None),
    ],
    ids=str,
)
def test_the_bounds_stay(scale: float, zero_point: np.generic, bounds: tuple[float, float] | None, opset: int) -> None:
    before = half_quantized(scale, zero_point, opset)
    policy = Policy(targets=("tensorrt",), select=("QL302",))
    fixed = fix_model(Model(before), FixRequest(policy=policy, unsafe=True))
    assert [change.code for change in fixed.report.changes] == ["QL302"]
    x = np.random.default_rng(0).normal(size=(4, 4)).astype(np.float32) * 10
    expected = (np.clip(x, *bounds) if bounds else x) @ x
    assert np.allclose(run(fixed.model.proto, {"x": x})[0], expected, rtol=1e-4)
