"""Signatures of operators are those of ONNX's schemas, opset by opset."""

import pytest
from onnx import AttributeProto

from qdqtool.graph.index.signature import signature_of

INT, INTS = AttributeProto.INT, AttributeProto.INTS


@pytest.mark.parametrize(
    ("op_type", "opset", "types", "inputs", "outputs"),
    [
        ("Squeeze", 12, {"axes": INTS}, (1, 1), (1, 1)),
        ("Squeeze", 13, {}, (1, 2), (1, 1)),
        ("Concat", 13, {"axis": INT}, (1, 2**31 - 1), (1, 1)),
        ("TopK", 13, {"axis": INT, "largest": INT, "sorted": INT}, (2, 2), (2, 2)),
    ],
)
def test_a_signature_is_that_of_the_opset(op_type, opset, types, inputs, outputs):
    found = signature_of(op_type, opset)
    assert (found.types, found.inputs, found.outputs) == (types, inputs, outputs)
    assert not found.is_withdrawn


def test_attributes_without_a_default_are_required():
    assert signature_of("Concat", 13).required == {"axis"}
    assert signature_of("Softmax", 13).required == set()


@pytest.mark.parametrize(("opset", "is_withdrawn"), [(9, False), (10, True)])
def test_a_withdrawn_operator_keeps_its_signature(opset, is_withdrawn):
    assert signature_of("Upsample", opset).is_withdrawn is is_withdrawn


@pytest.mark.parametrize(("op_type", "opset"), [("Squash", 13), ("Gelu", 19), ("Relu", 0), ("Relu", 2**40)])
def test_what_onnx_does_not_have_has_no_signature(op_type, opset):
    assert signature_of(op_type, opset) is None
