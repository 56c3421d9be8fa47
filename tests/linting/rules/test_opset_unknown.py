"""QM614: the newest opset that the onnx package has, and the one after."""

import onnx
import pytest
from support.one_rule import findings, parsed

NEWEST = onnx.defs.onnx_opset_version()


@pytest.mark.parametrize(("opset", "reported"), [(1, False), (NEWEST - 1, False), (NEWEST, False), (NEWEST + 1, True)])
def test_opsets(opset: int, reported: bool):
    model = parsed("agraph (float[2] x) => (float[2] y) { y = Relu (x) }", opset)
    told = [(each.message, each.found, each.expected) for each in findings("QM614", model, "onnx")]

    message = f"the model imports opset {opset}, which ONNX {onnx.__version__} does not have"
    assert told == [(message, str(opset), f"at most {NEWEST}")] * reported
