"""The gate on pairs: a DQ whose scale, zero point or axis is not that of its Q fails, and nothing else does."""

import numpy as np
import onnx
import pytest
from onnx import TensorProto, numpy_helper
from support.qdq import pair_model

from qdqtool.checking.report import GateResult
from qdqtool.data.request import DataRequest
from qdqtool.graph.model import Model
from qdqtool.jobs.check import check_model


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


def test_equal_constants_under_other_names_pass() -> None:
    scale = scale_of(pair_model(TensorProto.UINT8, zero_point=128))
    assert pairs(with_own_constant(1, scale)).passed
    assert pairs(with_own_constant(2, np.array(128, np.uint8))).passed


@pytest.mark.parametrize("factor", [1 + 2**-20, 0.5, -1.0])
def test_another_scale_fails_however_near(factor: float) -> None:
    scale = scale_of(pair_model(TensorProto.UINT8, zero_point=128))
    gate = pairs(with_own_constant(1, (scale * np.float32(factor)).astype(np.float32)))
    assert not gate.passed
    assert "its scale is" in gate.failures[0]
    assert gate.detail == "1 of 1 pairs differ"


def test_another_zero_point_fails() -> None:
    gate = pairs(with_own_constant(2, np.array(127, np.uint8)))
    assert not gate.passed
    assert "its zero_point is 127, that of the Q is 128" in gate.failures[0]


def test_a_zero_point_that_is_left_out_is_zero() -> None:
    proto = proto_of(pair_model(TensorProto.UINT8, zero_point=128))
    dequantize = next(node for node in proto.graph.node if node.op_type == "DequantizeLinear")
    del dequantize.input[2:]
    assert pairs(Model(proto)).failures == (
        "DequantizeLinear 'dequant' does not undo 'quant': its zero_point is 0, that of the Q is 128",
    )
    proto = proto_of(pair_model(TensorProto.INT8))
    dequantize = next(node for node in proto.graph.node if node.op_type == "DequantizeLinear")
    del dequantize.input[2:]
    assert pairs(Model(proto)).passed
