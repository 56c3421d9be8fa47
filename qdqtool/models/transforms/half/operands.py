"""Find the operands of a node that may be half precision, by the ONNX definition of the operator and by its meaning."""

import enum
from collections.abc import Sequence
from dataclasses import dataclass

from onnx import TensorProto

from qdqtool.models import ops
from qdqtool.models.graph.index.qdq import is_qdq, is_quantize
from qdqtool.models.graph.index.signature import signature_of
from qdqtool.models.graph.index.types import TensorTypes
from qdqtool.models.graph.index.view import NodeView, Value
from qdqtool.models.graph.scope import node_bodies
from qdqtool.models.options import HalfType


class TypeRule(enum.Enum):
    """How the type of a node's float operands is determined.

    ``COMPUTES``: a decision for the node sets the type. ``FOLLOWS``: the node reads a float tensor of either type and
    returns no float. ``MAKES``: the node returns a float tensor in the type that its readers need.
    """

    COMPUTES = "computes"
    FOLLOWS = "follows"
    MAKES = "makes"


@dataclass(frozen=True, slots=True)
class Operands:
    """The float32 operands of a node.

    Attributes:
        kind: How their type is determined.
        inputs: Positions of inputs that may be half precision.
        outputs: Positions of outputs that may be half precision.
        problem: Why no operand may be float16; empty if one may.
    """

    kind: TypeRule
    inputs: frozenset[int] = frozenset()
    outputs: frozenset[int] = frozenset()
    problem: str = ""


def operands_of(node: NodeView, types: TensorTypes, half: HalfType) -> Operands | None:
    """Return the float32 operands of a node, or None if it has none or is a Constant."""
    reads = [index for index, value in enumerate(node.inputs) if value is not None and is_float32(value, types)]
    makes = [index for index, value in enumerate(node.outputs) if value is not None and is_float32(value, types)]
    if not (reads or makes) or node.is_op("Constant"):
        return None
    if is_qdq(node):
        return _of_pair(node)
    if node.is_op("Cast", "ConstantOfShape") and not node.is_parametric:
        return _of_maker(reads, makes)
    problem = _problem(node, types, half)
    if problem:
        return Operands(TypeRule.COMPUTES, problem=problem)
    return _of_operator(node, reads, makes, half)


def is_float32(value: Value, types: TensorTypes) -> bool:
    """Return whether a tensor is known to be float32."""
    return types.elem_type(value) == TensorProto.FLOAT


def _of_pair(node: NodeView) -> Operands:
    if is_quantize(node):
        return Operands(TypeRule.FOLLOWS, inputs=frozenset({0}))
    return Operands(TypeRule.MAKES, outputs=frozenset({0}))


def _of_maker(reads: Sequence[int], makes: Sequence[int]) -> Operands:
    """Return the operands of a Cast or ConstantOfShape. A Cast reads either type; the output can have either type."""
    if makes:
        return Operands(TypeRule.MAKES, inputs=frozenset(reads), outputs=frozenset({0}))
    return Operands(TypeRule.FOLLOWS, inputs=frozenset({0}))


def _of_operator(node: NodeView, reads: Sequence[int], makes: Sequence[int], half: HalfType) -> Operands:
    signature = signature_of(node.op_type, node.scope.opset)
    assert signature is not None
    kept = ops.traits(node).float32_inputs
    allowed = {
        index: formal
        for index in reads
        if index not in kept and (formal := signature.operand(index)) and half.elem_type in formal.types
    }
    tied = {formal.variable for formal in allowed.values()}
    # For other operators, an attribute sets the type of an output.
    outputs = {index for index in makes if (made := signature.result(index)) and made.variable in tied}
    if not allowed:
        problem = f"ONNX defines {node.op_type} for float32 and not for {half.onnx_name}"
        return Operands(TypeRule.COMPUTES, problem=problem)
    alone = len(reads) == len(allowed) == 1 and not makes
    return Operands(TypeRule.FOLLOWS if alone else TypeRule.COMPUTES, frozenset(allowed), frozenset(outputs))


def _problem(node: NodeView, types: TensorTypes, half: HalfType) -> str:
    """Return why all float32 operands of a node must stay float32, or "" if its definition alone decides."""
    untyped = (value for value in (*node.present_inputs, *node.present_outputs) if types.elem_type(value) is None)
    if any(True for _ in node_bodies(node.proto)):
        return f"the inputs and outputs of the bodies of {node.op_type} stay float32"
    if node.scope.in_function:
        return "it is in a local function"
    if node.domain or signature_of(node.op_type, node.scope.opset) is None:
        return "it is not an ONNX operator, so the types that it supports are unknown"
    if (odd := next(untyped, None)) is not None:
        return f"'{odd.name}' is no tensor of a known type"
    if ops.lacks_kernel(node, half.elem_type):
        return f"TensorRT for RTX refuses it in {half.onnx_name}"
    return ops.traits(node).stays_float32
