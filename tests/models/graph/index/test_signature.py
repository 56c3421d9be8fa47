"""Signatures of operators are those of ONNX's schemas, opset by opset."""

import pytest
from onnx import AttributeProto, TensorProto

from qdqtool.models.graph.index.signature import signature_of

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


def test_an_operand_has_the_types_of_its_constraint():
    condition, left, right = (signature_of("Where", 16).operand(index) for index in range(3))
    assert (condition.name, condition.variable, condition.types) == ("condition", "B", {TensorProto.BOOL})
    assert left.variable == right.variable == "T"
    assert TensorProto.FLOAT16 in left.types
    assert TensorProto.FLOAT8E4M3FN not in left.types


def test_the_last_operand_stands_for_all_that_follow():
    concat = signature_of("Concat", 13)
    assert concat.operand(7) == concat.operand(0)
    assert concat.operand(0).is_required
    assert concat.operand(0).is_homogeneous
    assert not signature_of("Loop", 13).operand(5).is_homogeneous
    assert not signature_of("Loop", 13).operand(5).is_required


def test_a_tensor_may_be_absent_where_the_operand_is_optional():
    assert [signature_of("Clip", 13).operand(index).is_required for index in range(3)] == [True, False, False]
    assert signature_of("Constant", 13).operand(0) is None
    assert signature_of("Constant", 13).result(0).name == "output"


@pytest.mark.parametrize(("opset", "is_withdrawn"), [(9, False), (10, True)])
def test_a_withdrawn_operator_keeps_its_signature(opset, is_withdrawn):
    assert signature_of("Upsample", opset).is_withdrawn is is_withdrawn


@pytest.mark.parametrize(("op_type", "opset"), [("Squash", 13), ("Gelu", 19), ("Relu", 0), ("Relu", 2**40)])
def test_what_onnx_does_not_have_has_no_signature(op_type, opset):
    assert signature_of(op_type, opset) is None
