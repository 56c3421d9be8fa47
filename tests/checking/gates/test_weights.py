"""The gate on weights: scales in another unit fail, whether weights are stored as floats or as codes."""

from collections.abc import Callable

import numpy as np
import onnx
import pytest
from onnx import TensorProto as T
from onnx import helper, numpy_helper
from support.qdq import constant
from support.small import make_model

from qdqtool.checking.limits import Gates
from qdqtool.checking.options import CheckOptions
from qdqtool.checking.report import CheckReport, GateResult
from qdqtool.graph.model import Model
from qdqtool.jobs.check import check_model
from qdqtool.numerics.affine import quantize
from qdqtool.numerics.granularity import PerAxis

W = np.random.default_rng(3).normal(size=(8, 6)).astype(np.float32)
FITTING = (np.abs(W).max(axis=0) / 127).astype(np.float32)
ANY_STEPS = CheckOptions(gates=Gates(max_weight_steps=float("inf")))


def baseline() -> Model:
    nodes = [helper.make_node("MatMul", ["x", "w"], ["y"], name="matmul")]
    return Model(make_model(nodes, {"x": ("N", 8)}, {"y": ("N", 6)}, {"w": W}, opset=21, ir_version=10))


def stored_as_floats(scale: np.ndarray) -> Model:
    """W -> Q -> DQ -> MatMul, per-axis on the columns."""
    nodes = [
        helper.make_node("QuantizeLinear", ["w", "s", "z"], ["c"], axis=1),
        helper.make_node("DequantizeLinear", ["c", "s", "z"], ["d"], axis=1),
        helper.make_node("MatMul", ["x", "d"], ["y"], name="matmul"),
    ]
    model = make_model(nodes, {"x": ("N", 8)}, {"y": ("N", 6)}, {"w": W, "s": scale}, opset=21, ir_version=10)
    model.graph.initializer.append(constant("z", np.zeros(6), T.INT8))
    return Model(model)


def stored_as_codes(scale: np.ndarray) -> Model:
    """Codes -> DQ -> MatMul; the codes are the nearest with that scale."""
    from qdqtool import formats

    codes = quantize(W, scale, formats.get("int8"), PerAxis(1))
    nodes = [
        helper.make_node("DequantizeLinear", ["c", "s"], ["d"], axis=1, name="dequantize"),
        helper.make_node("MatMul", ["x", "d"], ["y"], name="matmul"),
    ]
    model = make_model(nodes, {"x": ("N", 8)}, {"y": ("N", 6)}, {"s": scale}, opset=21, ir_version=10)
    model.graph.initializer.append(numpy_helper.from_array(codes.astype(np.int8), "c"))
    return Model(model)


def weights(report: CheckReport) -> GateResult:
    return next(gate for gate in report.gates if gate.name == "weights")


@pytest.mark.parametrize("made", [stored_as_floats, stored_as_codes])
@pytest.mark.parametrize("options", [CheckOptions(), ANY_STEPS])
def test_scales_that_fit_pass(made: Callable[[np.ndarray], Model], options: CheckOptions) -> None:
    gate = weights(check_model(made(FITTING), baseline=baseline(), options=options))
    assert (gate.passed, gate.detail) == (True, "1 weight")


@pytest.mark.parametrize(("factor", "words"), [(1e-3, "% of the values are clipped"), (1000.0, "100.0% become 0")])
@pytest.mark.parametrize("made", [stored_as_floats, stored_as_codes])
@pytest.mark.parametrize("options", [CheckOptions(), ANY_STEPS])
def test_scales_in_another_unit_fail_and_say_what_they_do(
    made: Callable[[np.ndarray], Model], factor: float, words: str, options: CheckOptions
) -> None:
    scale = (FITTING * np.float32(factor)).astype(np.float32)
    gate = weights(check_model(made(scale), baseline=baseline(), options=options))
    (failure,) = gate.failures
    assert words in failure
    assert "would fit" in failure


@pytest.mark.parametrize("made", [stored_as_floats, stored_as_codes])
def test_one_channel_in_another_unit_fails(made: Callable[[np.ndarray], Model]) -> None:
    scale = FITTING.copy()
    scale[3] *= 1000
    (failure,) = weights(check_model(made(scale), baseline=baseline())).failures
    assert "SQNR in channel 3 of 6" in failure


def test_float_weights_are_judged_without_a_baseline_and_codes_are_not() -> None:
    bad = (FITTING * np.float32(1000)).astype(np.float32)
    (failure,) = weights(check_model(stored_as_floats(bad))).failures
    assert failure.startswith(
        "weight 'w', quantized at 'QuantizeLinear -> c': 0.0 dB SQNR: 0.0% of the values are clipped"
    )
    assert failure.endswith("the scale is 22.27, and 0.02227 would fit")
    assert all(gate.name != "weights" for gate in check_model(stored_as_codes(bad)).gates)


def test_renaming_every_tensor_hides_no_weight() -> None:
    model = stored_as_codes((FITTING * np.float32(1000)).astype(np.float32)).proto
    for node in model.graph.node:
        node.name = f"n_{node.name}"
        node.input[:] = [name if name == "x" else f"t_{name}" for name in node.input]
        node.output[:] = [name if name == "y" else f"t_{name}" for name in node.output]
    for tensor in model.graph.initializer:
        tensor.name = f"t_{tensor.name}"
    onnx.checker.check_model(model)
    report = check_model(Model(model), baseline=baseline())
    (failure,) = weights(report).failures
    assert failure.startswith(f"weight 'w', packed at '{model.graph.node[0].name}': ")
    assert report.not_observed == ()


def test_codes_of_which_none_has_a_counterpart_fail() -> None:
    other = [helper.make_node("Einsum", ["x", "v"], ["y"], equation="ij,jk->ik")]
    model = Model(make_model(other, {"x": ("N", 8)}, {"y": ("N", 6)}, {"v": W}, opset=21, ir_version=10))
    gate = weights(check_model(stored_as_codes(FITTING), baseline=model))
    assert not gate.passed
    assert "none of the 1 stored weights has a counterpart" in gate.failures[0]
    assert "1 without a counterpart SKIPPED" in gate.detail
