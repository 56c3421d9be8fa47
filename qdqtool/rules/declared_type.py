"""QS012: tensors that are declared with another type than their maker gives them."""

import functools
from collections.abc import Iterator

import onnx

from qdqtool.graph.index.view import NodeView, Scope, Value
from qdqtool.rules.support.rule import REFUSED, Example, Fault, Rule, impacts
from qdqtool.rules.support.rule_context import RuleContext
from qdqtool.rules.support.words import kind
from qdqtool.targets import Target


class DeclaredType(Rule):
    """A tensor is declared with the type that its Q or DQ makes.

    Why it matters: graph outputs, and tensors in value_info, state their types. A Q makes the type of its zero point, a
    DQ that of its scale; where an editor exchanged the zero point or the scale and left the declaration, ONNX Runtime
    refuses the model. TensorRT does not look.

    Bad: a graph output declared int8 that a Q with a uint8 zero point makes.

    Good: the declaration uint8, or no value_info at all.
    """

    code = "QS012"
    name = "spec.declared-type"
    affects = impacts(onnx=REFUSED, ort_cpu=REFUSED)
    remedy = "declare the type that the Q or DQ makes; take out the value_info of inner tensors"
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
        """Follow the types that Q and DQ make through operators that keep the type, and compare declarations."""
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
    if node.domain:
        return
    known = [made.get(value) if (value := node.input(index)) else None for index in range(len(node.proto.input))]
    if not any(known):
        return
    for index, inputs in enumerate(_same_types(node.op_type, node.scope.opset, len(known), len(node.proto.output))):
        value = node.output(index)
        types = {known[position] for position in inputs} - {None}
        if value is not None and len(types) == 1:
            yield value, types.pop() or 0


@functools.lru_cache(maxsize=1024)
def _same_types(op_type: str, opset: int, inputs: int, outputs: int) -> tuple[tuple[int, ...], ...]:
    """Return for each output of an operator the inputs that have its type."""
    try:
        schema = onnx.defs.get_schema(op_type, opset, "")
    # TypeError: get_schema takes an opset of 32 bits only.
    except (onnx.defs.SchemaError, TypeError):
        return ()
    if not schema.inputs or not schema.outputs:
        return ()
    taken = [schema.inputs[min(index, len(schema.inputs) - 1)] for index in range(inputs)]
    given = [schema.outputs[min(index, len(schema.outputs) - 1)] for index in range(outputs)]
    homogeneous = onnx.defs.OpSchema.FormalParameterOption.Variadic
    if any(formal.option == homogeneous and not formal.is_homogeneous for formal in (*taken, *given)):
        return ()
    return tuple(tuple(index for index, formal in enumerate(taken) if formal.type_str == out.type_str) for out in given)


def _fault(node: NodeView, value: Value, given: int, declared: int) -> Fault:
    role = "output" if value.is_output else "tensor"
    return Fault(
        message=f"{role} '{value.name}' is declared {kind(declared)}, and this {node.op_type} makes {kind(given)}",
        node=node,
        tensor=value,
        found=kind(declared),
        expected=kind(given),
    )
