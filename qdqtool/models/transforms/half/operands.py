"""Find the operands of a node that may be half precision, by the ONNX definition of the operator and by its meaning."""

import enum
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from onnx import TensorProto

from qdqtool.models import ops
from qdqtool.models.graph.index.model_index import ModelIndex
from qdqtool.models.graph.index.qdq import is_qdq, is_quantize
from qdqtool.models.graph.index.signature import keeps_type, signature_of
from qdqtool.models.graph.index.types import TensorTypes
from qdqtool.models.graph.index.view import NodeView, Use, Value
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
    if node.domain or signature is None:
        # ONNX Runtime defines these operators for all float types; the mean and deviation of a skip stay float32.
        return Operands(TypeRule.COMPUTES, frozenset(reads), frozenset(makes) - {1, 2})
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
    if (node.domain or signature_of(node.op_type, node.scope.opset) is None) and not keeps_type(node.proto):
        return "it is not an ONNX operator, so the types that it supports are unknown"
    if (odd := next(untyped, None)) is not None:
        return f"'{odd.name}' is no tensor of a known type"
    if ops.lacks_kernel(node, half.elem_type):
        return f"TensorRT for RTX refuses it in {half.onnx_name}"
    return ops.traits(node).stays_float32


_INTEGERS = frozenset(value for name, value in TensorProto.DataType.items() if name.startswith(("INT", "UINT")))


def index_arithmetic(
    index: ModelIndex, operands: Mapping[NodeView, Operands], angles: Iterable[NodeView] = ()
) -> frozenset[NodeView]:
    """Return the nodes with float32 operands whose results are only used as indices, shapes or angles.

    The reader of such a result is a ``Cast`` to an integer, an input that ONNX defines as float32, such as the
    scales of a ``Resize``, or a node of ``angles``. The search goes backwards from these readers, through nodes that
    have no other consumer.

    Args:
        index: The index of the model.
        operands: The float32 operands of the model's nodes.
        angles: Nodes that read large angles; they are in the result too.
    """
    found = set(angles)
    for scope in reversed(index.view.scopes):
        for node in reversed(scope.nodes):
            own = operands.get(node)
            is_data = ops.traits(node).is_layer and not (angles and _is_outer_product(node, index.types))
            if own is None or own.kind is not TypeRule.COMPUTES or is_data:
                continue
            if _feeds_only_indices(node, own, operands, found):
                found.add(node)
    return frozenset(found)


def _feeds_only_indices(
    node: NodeView, own: Operands, operands: Mapping[NodeView, Operands], found: set[NodeView]
) -> bool:
    outputs = [value for index in own.outputs if (value := node.output(index)) is not None]
    uses = [use for value in outputs for use in value.uses if not use.node.is_op("Shape", "Size")]
    if not uses or any(value.is_output for value in outputs):
        return False
    return all(use.node in found or _is_index(use, operands) for use in uses)


def _is_index(use: Use, operands: Mapping[NodeView, Operands]) -> bool:
    """Return whether a use converts a number to an integer, or needs float32 by the definition of its operator."""
    if use.node.is_op("Cast"):
        return use.node.attribute("to") in _INTEGERS
    own = operands.get(use.node)
    return own is not None and own.kind is TypeRule.COMPUTES and not own.problem and use.index not in own.inputs


def _is_outer_product(node: NodeView, types: TensorTypes) -> bool:
    """Return whether a MatMul adds up nothing, as that of positions and frequencies in rotary embeddings."""
    left = node.input(0)
    shape = types.shape(left) if node.is_op("MatMul") and left is not None else None
    return shape is not None and shape[-1:] == (1,)
