"""QS012: tensors that are declared with another type than their maker gives them."""

import re
from collections.abc import Iterator, Mapping

import onnx

from qdqtool.graph.index.qdq import is_qdq
from qdqtool.graph.index.signature import Signature, signature_of
from qdqtool.graph.index.view import NodeView, Scope, Value
from qdqtool.rules.support.rule import REFUSED, Example, Fault, Rule, impacts
from qdqtool.rules.support.rule_context import RuleContext
from qdqtool.rules.support.words import kind
from qdqtool.targets import Target

_DIFFERING = re.compile(r"Inferred elem type differs from existing elem type: \((\d+)\) vs \((\d+)\)")


class DeclaredType(Rule):
    """A tensor is declared with the type that its node makes.

    Why it matters: graph outputs, and tensors in value_info, state their types. A Q makes the type of its zero point, a
    DQ that of its scale, and most other nodes that of their inputs; where an editor exchanged the zero point, the scale
    or a weight and left the declaration, ONNX Runtime refuses the model. TensorRT does not look.

    Bad: a graph output declared int8 that a Q with a uint8 zero point makes.

    Good: the declaration uint8, or no value_info at all.
    """

    code = "QS012"
    name = "spec.declared-type"
    affects = impacts(onnx=REFUSED, ort_cpu=REFUSED)
    remedy = "declare the type that the node makes; take out the value_info of inner tensors"
    VALID = (
        Example(
            "an output of codes",
            """
            agraph (float[1,4] x) => (int8[1,4] y) <float s = {0.1}, int8 z = {0}> {
                y = QuantizeLinear (x, s, z)
            }
            """,
        ),
    )
    INVALID = (
        Example(
            "an int8 output of a Q that makes uint8",
            """
            agraph (float[1,4] x) => (int8[1,4] y) <float s = {0.1}, uint8 z = {0}> {
                y = QuantizeLinear (x, s, z)
            }
            """,
        ),
        Example(
            "the same behind a Transpose",
            """
            agraph (float[1,4] x) => (int8[4,1] y) <float s = {0.1}, uint8 z = {0}> {
                q = QuantizeLinear (x, s, z)
                y = Transpose (q)
            }
            """,
        ),
        Example(
            "an inner tensor that is declared float16",
            """
            agraph (float[1,4] x) => (float[1,4] y) <float s = {0.1}, int8 z = {0}, float16[1,4] d> {
                q = QuantizeLinear (x, s, z)
                d = DequantizeLinear (q, s, z)
                y = Relu (d)
            }
            """,
        ),
    )

    def check(self, context: RuleContext, target: Target) -> Iterator[Fault]:
        """Follow the types of inputs, constants, Q and DQ through the operators, and compare declarations."""
        del target
        made: dict[Value, int] = {}
        for scope in context.view.scopes:
            declared = _declared(scope)
            for node in scope.nodes:
                for value, given in _made(context, node, made):
                    made[value] = given
                    if declared.get(value.name, given) != given:
                        yield _fault(node, value, given, declared[value.name])
                        # What follows agrees with the declaration, or has a fault of its own.
                        del made[value]
        yield from _of_other_nodes(context)


def _declared(scope: Scope) -> dict[str, int]:
    container = scope.container
    if not isinstance(container, onnx.GraphProto):
        return {}
    infos = (*container.value_info, *container.output)
    return {info.name: elem for info in infos if (elem := info.type.tensor_type.elem_type)}


def _made(context: RuleContext, node: NodeView, made: dict[Value, int]) -> Iterator[tuple[Value, int]]:
    """Yield the outputs of a node whose type follows from a Q or DQ, with that type."""
    entry = context.qdq.get(node)
    if entry is not None:
        given = entry.quantized_type if entry.is_quantize else context.output_type(entry)
        if entry.output is not None and given:
            yield entry.output, given
        return
    signature = None if node.domain else signature_of(node.op_type, node.scope.opset)
    if signature is None:
        return
    bound = _bound(context, node, signature, made)
    for index in range(len(node.proto.output)):
        value, result = node.output(index), signature.result(index)
        given = result.only_type or bound.get(result.variable) if result is not None else None
        if value is not None and given is not None:
            yield value, given


def _of_other_nodes(context: RuleContext) -> Iterator[Fault]:
    """Yield what onnx's shape inference says of outputs whose types follow from attributes or bodies."""
    scopes = {scope.path: scope for scope in context.view.scopes}
    for found in context.types.contradictions:
        differing = _DIFFERING.match(found.text)
        node = scopes[found.scope].nodes[found.position]
        if differing is None or _follows_from_inputs(node):
            continue
        given, declared = map(int, differing.groups())
        types = _declared(node.scope)
        outputs = (value for index in range(len(node.proto.output)) if (value := node.output(index)) is not None)
        yield from (_fault(node, value, given, declared) for value in outputs if types.get(value.name) == declared)


def _follows_from_inputs(node: NodeView) -> bool:
    signature = None if node.domain else signature_of(node.op_type, node.scope.opset)
    if signature is None or is_qdq(node):
        return is_qdq(node)
    variables = {operand.variable for operand in signature.operands if operand.is_homogeneous}
    return all(result.only_type or result.variable in variables for result in signature.results)


def _bound(context: RuleContext, node: NodeView, signature: Signature, made: Mapping[Value, int]) -> Mapping[str, int]:
    """Return the type of each type constraint that the inputs of a node decide without contradiction."""
    found: dict[str, set[int]] = {}
    for index in range(len(node.proto.input)):
        value, operand = node.input(index), signature.operand(index)
        known = _stated(context, value, made) if value is not None else None
        if known and operand is not None and operand.is_homogeneous and known in operand.types:
            found.setdefault(operand.variable, set()).add(known)
    return {variable: types.pop() for variable, types in found.items() if len(types) == 1}


def _stated(context: RuleContext, value: Value, made: Mapping[Value, int]) -> int | None:
    """Return the type of a tensor that does not come from its declaration between nodes."""
    if value in made or not (value.is_input or value.initializer is not None):
        return made.get(value)
    return context.elem_type(value)


def _fault(node: NodeView, value: Value, given: int, declared: int) -> Fault:
    role = "output" if value.is_output else "tensor"
    return Fault(
        message=f"{role} '{value.name}' is declared {kind(declared)}, and this {node.op_type} makes {kind(given)}",
        node=node,
        tensor=value,
        found=kind(declared),
        expected=kind(given),
    )
