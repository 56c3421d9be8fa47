"""QT412: nodes with attributes or inputs that their operator does not have at the model's opset."""

from collections.abc import Callable, Sequence

from onnx import AttributeProto

from qdqtool.linting.rules.support.rule import REFUSED, Fault, Faults, Rule, examples, impacts
from qdqtool.linting.rules.support.rule_context import RuleContext
from qdqtool.linting.rules.support.words import listed
from qdqtool.models.graph.index.signature import Signature, SignatureOperand
from qdqtool.models.graph.index.view import NodeView
from qdqtool.models.targets import Target

_UNCHECKED = frozenset(["LayerNormalization"])
"""Operators for which onnx 1.23.2 and ONNX Runtime allow attributes of any name."""


class OperatorSignature(Rule):
    """A node has the attributes, inputs and outputs that its operator has at the opset of the model.

    Why it matters: if the opset number is raised by hand, for a type such as int4, the nodes still have the form of the
    old opset. For example, the axes became an input of Squeeze with opset 13, and of every reduction with opset 18.
    ONNX Runtime and onnx's checker refuse such a model. They also refuse a node that lacks an input. TensorRT's parser
    reads most old attributes at any opset.

    Bad: ReduceMean <axes = [1]> at opset 19; Clip with two inputs for its bounds at opset 6; Add of one tensor.

    Good: a model that was converted to its opset.
    """

    code = "QT412"
    name = "target.operator-signature"
    affects = impacts(onnx=REFUSED, ort_cpu=REFUSED)
    remedy = (
        "change the attributes, inputs and outputs of the node to those of its operator at this opset; if the opset "
        "was raised by hand, restore it and convert the model with onnx.version_converter; or export the model again"
    )
    VALID = examples("""
        axes as an input at opset 18:
            <ir_version: 8, opset_import: ["": 18]>
            agraph (float[1,4] x) => (float[1,1] y) <int64[1] axes = {1}> {
                y = ReduceMean (x, axes)
            }
    """)
    INVALID = examples("""
        axes as an attribute at opset 19:
            <ir_version: 9, opset_import: ["": 19]>
            agraph (float[1,4] x) => (float[1,1] y) {
                y = ReduceMean <axes = [1]> (x)
            }
        an attribute of another type:
            agraph (float[1,4] x) => (float[1,4] y) {
                y = Softmax <axis = 1.0> (x)
            }
        bounds as inputs at opset 6:
            <ir_version: 4, opset_import: ["": 6]>
            agraph (float[1,4] x) => (float[1,4] y) <float low = {0}, float high = {1}> {
                y = Clip (x, low, high)
            }
    """)

    def check(self, context: RuleContext, target: Target) -> Faults:
        """Compare every node with the definition of its operator."""
        for node, signature in context.operators:
            # Rule QT411 reports operators that an opset has removed.
            problem = None if signature.is_withdrawn else _problem(node, signature)
            if problem is not None:
                message, expected = problem
                found = f"{node.op_type} at opset {node.scope.opset}"
                yield Fault(f"{found} {message}", node, found=found, expected=expected)


def _problem(node: NodeView, signature: Signature) -> tuple[str, str] | None:
    """Return what is wrong with a node and what was expected, in words, or None if nothing is wrong."""
    return (
        _attribute_problem(node, signature)
        or _count_problem("input", node.proto.input, signature.inputs)
        or _count_problem("output", node.proto.output, signature.outputs)
        or _gap(node, signature)
        or _absent("input", node.proto.input, signature.operand)
        or _absent("output", node.proto.output, signature.result)
    )


def _attribute_problem(node: NodeView, signature: Signature) -> tuple[str, str] | None:
    given = {attribute.name: attribute for attribute in node.proto.attribute}
    for name, attribute in given.items():
        expected = signature.types.get(name)
        if expected is None and node.op_type in _UNCHECKED:
            continue
        if expected is None:
            return f"has no attribute '{name}'", listed(signature.types) or "no attributes"
        if attribute.type != expected and not attribute.ref_attr_name:
            types = AttributeProto.AttributeType
            return f"has '{name}' as {types.Name(attribute.type)}", types.Name(expected)
    if missing := signature.required - given.keys():
        return f"needs the attribute '{min(missing)}'", listed(signature.required)
    return None


def _count_problem(what: str, names: Sequence[str], bounds: tuple[int, int]) -> tuple[str, str] | None:
    fewest, most = bounds
    if fewest <= len(names) <= most:
        return None
    legal = _range(fewest, most)
    return f"takes {legal} {what}{'s' * (legal != '1')}; this one has {len(names)}", legal


def _gap(node: NodeView, signature: Signature) -> tuple[str, str] | None:
    """Check BatchNormalization: it has either one output or all outputs."""
    count = len(node.proto.output)
    if node.op_type != "BatchNormalization" or count in signature.outputs:
        return None
    legal = f"1 or {signature.outputs[1]}"
    return f"takes {legal} outputs; this one has {count}", legal


def _absent(
    what: str, names: Sequence[str], formal: Callable[[int], SignatureOperand | None]
) -> tuple[str, str] | None:
    """Find a required tensor whose name is empty."""
    operands = (formal(index) for index, name in enumerate(names) if not name)
    absent = next((operand for operand in operands if operand is not None and operand.is_required), None)
    return None if absent is None else (f"needs its {what} '{absent.name}'", "the name of a tensor")


def _range(fewest: int, most: int) -> str:
    return str(fewest) if fewest == most else f"{fewest} to {most}" if most < 2**31 - 1 else f"{fewest} or more"
