"""QS012: tensors whose declared type differs from the type that their node makes."""

import itertools
import re
from collections.abc import Collection

import onnx

from qdqtool.linting.rules.support.rule import REFUSED, Fault, Faults, Rule, examples, impacts
from qdqtool.linting.rules.support.rule_context import RuleContext
from qdqtool.linting.rules.support.words import kind
from qdqtool.models.graph.index.qdq import is_qdq
from qdqtool.models.graph.index.view import NodeView, Scope, Value
from qdqtool.models.targets import Target

_DIFFERING = re.compile(r"Inferred elem type differs from existing elem type: \((\d+)\) vs \((\d+)\)")


class DeclaredType(Rule):
    """The declared type of a tensor is the type that its node makes.

    Why it matters: graph outputs, and tensors in value_info, state their types. The output of a Q has the type of its
    zero point, and the output of a DQ the type of its scale. Most other outputs have the type of the inputs. If an
    editor replaces the zero point, the scale or a weight and keeps the old declaration, ONNX Runtime refuses the model.
    TensorRT does not check this.

    Bad: a graph output that is declared int8, made by a Q with a uint8 zero point.

    Good: the declaration uint8, or no value_info at all.
    """

    code = "QS012"
    name = "spec.declared-type"
    affects = impacts(onnx=REFUSED, ort_cpu=REFUSED)
    remedy = "declare the type that the node makes; remove the value_info of inner tensors"
    VALID = examples("""
        an output of codes:
            agraph (float[1,4] x) => (int8[1,4] y) <float s = {0.1}, int8 z = {0}> {
                y = QuantizeLinear (x, s, z)
            }
    """)
    INVALID = examples("""
        an int8 output of a Q that makes uint8:
            agraph (float[1,4] x) => (int8[1,4] y) <float s = {0.1}, uint8 z = {0}> {
                y = QuantizeLinear (x, s, z)
            }
        the same behind a Transpose:
            agraph (float[1,4] x) => (int8[4,1] y) <float s = {0.1}, uint8 z = {0}> {
                q = QuantizeLinear (x, s, z)
                y = Transpose (q)
            }
        an inner tensor that is declared float16:
            agraph (float[1,4] x) => (float[1,4] y) <float s = {0.1}, int8 z = {0}, float16[1,4] d> {
                q = QuantizeLinear (x, s, z)
                d = DequantizeLinear (q, s, z)
                y = Relu (d)
            }
    """)

    def check(self, context: RuleContext, target: Target) -> Faults:
        """Compare declared types with the types that Q and DQ make, and onnx's shape inference for other nodes."""
        wrong: set[Value | str] = set()
        for fault in itertools.chain(_of_pairs(context), _of_others(context, wrong)):
            assert fault.tensor is not None
            wrong.add(fault.tensor)
            yield fault


def _of_pairs(context: RuleContext) -> Faults:
    for entry in context.qdq.nodes:
        given = entry.quantized_type if entry.is_quantize else context.output_type(entry)
        declared = _declared(entry.node.scope).get(entry.output.name, given) if entry.output is not None else given
        if entry.output is not None and given and declared and declared != given:
            yield _fault(entry.node, entry.output, given, declared)


def _of_others(context: RuleContext, wrong: Collection[Value | str]) -> Faults:
    """Yield faults of other nodes. Nodes that read a tensor in ``wrong`` are skipped: it causes their faults."""
    scopes = {scope.path: scope for scope in context.view.scopes}
    for found in context.types.contradictions:
        differing = _DIFFERING.match(found.text)
        node = scopes[found.scope].nodes[found.position]
        if differing is None or is_qdq(node) or any(value in wrong for value in node.inputs):
            continue
        given, declared = map(int, differing.groups())
        types = _declared(node.scope)
        outputs = node.present_outputs
        yield from (_fault(node, value, given, declared) for value in outputs if types.get(value.name) == declared)


def _declared(scope: Scope) -> dict[str, int]:
    container = scope.container
    if not isinstance(container, onnx.GraphProto):
        return {}
    infos = (*container.value_info, *container.output)
    return {info.name: elem for info in infos if (elem := info.type.tensor_type.elem_type)}


def _fault(node: NodeView, value: Value, given: int, declared: int) -> Fault:
    role = "output" if value.is_output else "tensor"
    message = f"{role} '{value.name}' is declared {kind(declared)}, but this {node.op_type} makes {kind(given)}"
    return Fault(message, node, value, found=kind(declared), expected=kind(given))
