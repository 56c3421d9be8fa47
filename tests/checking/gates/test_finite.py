"""The gate on NaN and infinite outputs: only those that the baseline has at the same places are let through."""

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper
from support.small import make_model

from qdqtool.checking.report import GateResult
from qdqtool.graph.model import Model
from qdqtool.jobs.check import check_model


def shifted_log(shift: float) -> Model:
    """y = log(x + shift): infinite at ``x == -shift``, NaN below."""
    graph = helper.make_graph(
        [helper.make_node("Add", ["x", "s"], ["a"]), helper.make_node("Log", ["a"], ["y"])],
        "g",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [4])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, [4])],
        [helper.make_tensor("s", TensorProto.FLOAT, [], [shift])],
    )
    return Model(helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", 17)], ir_version=8))


@pytest.fixture
def data(tmp_path):
    np.savez(tmp_path / "d.npz", x=np.array([[0.5, 1.0, 2.0, 3.0]], np.float32))
    return tmp_path / "d.npz"


def finite(model: Model, baseline: Model | None, data) -> GateResult:
    report = check_model(model, baseline=baseline, data=data)
    return next(gate for gate in report.gates if gate.name == "finite")


def test_finite_outputs_pass(data) -> None:
    assert finite(shifted_log(0.0), None, data).passed


def test_an_infinite_output_fails_and_is_counted(data) -> None:
    gate = finite(shifted_log(-1.0), None, data)
    assert not gate.passed
    assert gate.failures[0].startswith("output 'y' has 2 NaN or infinite elements")


def test_what_the_baseline_has_at_the_same_places_passes(data) -> None:
    assert finite(shifted_log(-1.0), shifted_log(-1.0), data).passed


def test_nan_that_the_baseline_does_not_have_fails_though_it_has_others(data) -> None:
    gate = finite(shifted_log(-2.0), shifted_log(-1.0), data)
    assert not gate.passed
    assert gate.detail == "1 of 1 outputs have them"


def test_a_finite_baseline_excuses_nothing(data) -> None:
    assert not finite(shifted_log(-1.0), shifted_log(0.0), data).passed


@pytest.mark.parametrize("bad", [np.nan, np.inf])
def test_a_scale_fails_though_a_relu_hides_what_it_makes(bad: float) -> None:
    nodes = [
        helper.make_node("DequantizeLinear", ["codes", "scales"], ["w"], name="dq", axis=1),
        helper.make_node("MatMul", ["x", "w"], ["t"]),
        helper.make_node("Relu", ["t"], ["r"]),
        helper.make_node("IsNaN", ["r"], ["n"]),
        helper.make_node("Where", ["n", "zero", "r"], ["y"]),
    ]
    scales = np.array([0.5, bad, 0.5], np.float32)
    constants = {"codes": np.zeros((4, 3), np.int8), "scales": scales, "zero": np.zeros(1, np.float32)}
    report = check_model(Model(make_model(nodes, {"x": ("N", 4)}, {"y": ("N", 3)}, constants)))
    gate = next(gate for gate in report.gates if gate.name == "finite")
    assert gate.failures == ("DequantizeLinear 'dq': 1 of 3 scales are NaN or infinite",)
