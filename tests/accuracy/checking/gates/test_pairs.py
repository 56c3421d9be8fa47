"""The gate on pairs: a DQ whose scale, zero point or axis is not that of its Q fails, and nothing else does."""

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper
from support.qdq import pair_model, text_model
from support.small import make_model

from qdqtool.accuracy.checking.report import GateResult
from qdqtool.jobs.check import check_model
from qdqtool.models.graph.model import Model
from qdqtool.samples.request import DataRequest


def proto_of(model: Model | onnx.ModelProto) -> onnx.ModelProto:
    copy = onnx.ModelProto()
    copy.CopyFrom(model.proto if isinstance(model, Model) else model)
    return copy


def with_own_constant(position: int, value: np.ndarray) -> Model:
    """A uint8 pair whose DQ reads a constant of its own at input ``position``."""
    proto = proto_of(pair_model(TensorProto.UINT8, zero_point=128))
    proto.graph.initializer.append(numpy_helper.from_array(value, "own"))
    dequantize = next(node for node in proto.graph.node if node.op_type == "DequantizeLinear")
    dequantize.input[position] = "own"
    return Model(proto)


def pairs(model: Model) -> GateResult | None:
    report = check_model(model, data=DataRequest(input_shapes={"x": (64,)}, samples=1))
    return next((gate for gate in report.gates if gate.name == "pairs"), None)


def scale_of(model: Model | onnx.ModelProto) -> np.ndarray:
    proto = proto_of(model)
    quantize = next(node for node in proto.graph.node if node.op_type == "QuantizeLinear")
    stored = {tensor.name: tensor for tensor in proto.graph.initializer}
    return numpy_helper.to_array(stored[quantize.input[1]])


@pytest.mark.parametrize("factor", [1 + 2**-20, 0.5, -1.0])
def test_another_scale_fails_however_near(factor: float) -> None:
    scale = scale_of(pair_model(TensorProto.UINT8, zero_point=128))
    gate = pairs(with_own_constant(1, (scale * np.float32(factor)).astype(np.float32)))
    assert not gate.passed
    assert "its scale is" in gate.failures[0]
    assert gate.detail == "1 of 1 pairs differ"


BROKEN = """
<ir_version: 10, opset_import: ["": 21]>
g (float[4] x, float one) => (float[4] y)
<float s = {0.5}, float other = {%s}, uint8 z = {%d}, uint8 two = {2}>
{
  d = Mul (s, one)
  c = Cast <to = 2> (one)
  m = Mul (c, two)
  q = QuantizeLinear (%s)
  y = DequantizeLinear (%s)
}
"""


def gate_of(tmp_path, quantize: str, dequantize: str, *, other: float = 0.5, zero: int = 2) -> GateResult | None:
    """The gate on a pair with these inputs: ``s`` is 0.5, ``d`` is too but not constant, ``m`` and ``two`` are 2."""
    np.savez(tmp_path / "d.npz", x=np.float32([[0, 1, 2, 3]]), one=np.ones(1, np.float32))
    report = check_model(text_model(BROKEN % (other, zero, quantize, dequantize)), data=tmp_path / "d.npz")
    return next((gate for gate in report.gates if gate.name == "pairs"), None)


@pytest.mark.parametrize(
    ("quantize", "dequantize"),
    [
        ("x, s, two", "q, other, z"),
        ("x, d, two", "q, s, two"),
        ("x, s, two", "q, d, two"),
        ("x, s, m", "q, s, two"),
        ("x, s, two", "q, s, m"),
        ("x, s", "q, s"),
        ("x, d, m", "q, d, m"),
    ],
)
def test_equal_values_pass_whether_constant_or_not(quantize: str, dequantize: str, tmp_path) -> None:
    gate = gate_of(tmp_path, quantize, dequantize)
    assert (gate.passed, gate.detail, gate.failures) == (True, "1 pair", ())


@pytest.mark.parametrize(
    ("quantize", "dequantize", "fault"),
    [
        ("x, d, two", "q, other, two", "3 elements differ; at [1] it gives 0.5, the Q's own constants give 1.0"),
        ("x, s, m", "q, s, z", "4 elements differ; at [0] it gives -0.5, the Q's own constants give 0.0"),
        ("x, s", "q, s, m", "4 elements differ; at [0] it gives -1.0, the Q's own constants give 0.0"),
        ("x, s, m", "q, s", "4 elements differ; at [0] it gives 1.0, the Q's own constants give 0.0"),
        ("x, s", "q, s, z", "its zero_point is 3, that of the Q is 0"),
        ("x, s, z", "q, s", "its zero_point is 0, that of the Q is 3"),
        ("x, s, z", "q, other, two", "its scale is 0.25, that of the Q is 0.5"),
    ],
)
def test_other_values_fail_by_constant_or_by_what_they_give(
    quantize: str, dequantize: str, fault: str, tmp_path
) -> None:
    gate = gate_of(tmp_path, quantize, dequantize, other=0.25, zero=3)
    (failure,) = gate.failures
    assert failure.removeprefix("DequantizeLinear 'DequantizeLinear -> y' ") == (
        f"does not undo 'QuantizeLinear -> q': {fault}"
    )


def test_a_model_without_pairs_has_no_gate() -> None:
    model = make_model([helper.make_node("Neg", ["x"], ["y"])], {"x": (64,)}, {"y": (64,)}, {})
    assert pairs(Model(model)) is None


@pytest.mark.parametrize(("at", "axis"), [(1, 0), (2, 0)])
def test_vectors_are_told_with_their_first_value_and_length(at: int, axis: int) -> None:
    constants = {
        "s": np.float32([0.5, 0.25]),
        "z": np.uint8([1, 2]),
        "t": np.float32([0.5, 0.125]),
        "w": np.uint8([1, 3]),
    }
    inputs = ["q", "s", "z"]
    inputs[at] = ["", "t", "w"][at]
    nodes = [
        helper.make_node("QuantizeLinear", ["x", "s", "z"], ["q"], axis=axis),
        helper.make_node("DequantizeLinear", inputs, ["y"], axis=axis),
    ]
    model = make_model(nodes, {"x": (2, 3)}, {"y": (2, 3)}, constants, opset=21, ir_version=10)
    (failure,) = next(gate for gate in check_model(Model(model)).gates if gate.name == "pairs").failures
    told = ["", "its scale is 0.5, … (2 values), that of the Q is 0.5, … (2 values)"]
    told.append("its zero_point is 1, … (2 values), that of the Q is 1, … (2 values)")
    assert failure.endswith(told[at])


def test_equal_nan_is_no_difference() -> None:
    nan = np.full((), np.nan, np.float32)
    model = with_own_constant(1, nan)
    model.proto.graph.initializer[0].CopyFrom(numpy_helper.from_array(nan, model.proto.graph.initializer[0].name))
    assert np.isnan(scale_of(model))
    assert not any("its scale is" in failure for failure in pairs(model).failures)
