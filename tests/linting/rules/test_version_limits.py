"""QM607: the newest opset and IR version that ONNX Runtime loads."""

import pytest
from support.one_rule import findings, parsed

from qdqtool.models import targets

LIMITS = targets.get("ort-cpu")


@pytest.mark.parametrize("opset", [0, 1])
@pytest.mark.parametrize("ir_version", [0, 1])
def test_the_limits_and_one_above(opset: int, ir_version: int):
    model = parsed("agraph (float[2] x) => (float[2] y) { y = Relu (x) }", LIMITS.max_opset + opset)
    model.ir_version = LIMITS.max_ir + ir_version
    told = [(each.message, each.found, each.expected) for each in findings("QM607", model, "ort-cpu")]

    words = (("the model uses opset", LIMITS.max_opset, opset), ("the file has IR version", LIMITS.max_ir, ir_version))
    assert told == [
        (f"{word} {limit + 1}", str(limit + 1), f"at most {limit}") for word, limit, above in words if above
    ]
