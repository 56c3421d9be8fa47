"""QT407: other operators with the name of a Q or DQ."""

from qdqtool.linting.rules.support.rule import REFUSED, SILENT, Fault, Faults, Rule, examples, impacts
from qdqtool.linting.rules.support.rule_context import RuleContext
from qdqtool.linting.rules.support.words import kind
from qdqtool.models.graph.index.qdq import DEQUANTIZE, DOMAINS, QUANTIZE
from qdqtool.models.graph.index.view import NodeView
from qdqtool.models.targets import Target


class UnknownDomain(Rule):
    """Only the Q and DQ of ONNX have the names QuantizeLinear and DequantizeLinear.

    Why it matters: TensorRT's parser reads the name of an operator but not its domain. So it silently replaces a custom
    operator or local function with such a name by the built-in operator, which may refuse the inputs. Other runtimes
    refuse an unknown custom operator, and use the definition of a local function.

    Bad: my.domain.QuantizeLinear.

    Good: the standard operator, or a custom operator with another name.
    """

    code = "QT407"
    name = "target.domain-ignored"
    affects = impacts(ort_cpu=REFUSED, tensorrt=SILENT)
    remedy = "use the standard domain, or rename the operator or function"
    VALID = examples("""
        the com.microsoft twins mean the same:
            <ir_version: 10, opset_import: ["": 21, "com.microsoft": 1]>
            agraph (float[1,4] x) => (float[1,4] y) <float s = {0.1}, int8 z = {0}> {
                q = com.microsoft.QuantizeLinear (x, s, z)
                y = com.microsoft.DequantizeLinear (q, s, z)
            }
    """)
    INVALID = examples("""
        a local function of floats that is called DequantizeLinear [tensorrt, tensorrt-rtx]:
            <ir_version: 10, opset_import: ["": 21, "my.domain": 1]>
            agraph (float[1,4] x) => (float[1,4] y) <float s = {0.1}> {
                y = my.domain.DequantizeLinear (x, s)
            }
            <domain: "my.domain", opset_import: ["": 21]>
            DequantizeLinear (a, b) => (c) {
                c = Mul (a, b)
            }
        a local function of one input that is called QuantizeLinear [tensorrt, tensorrt-rtx]:
            <ir_version: 10, opset_import: ["": 21, "my.domain": 1]>
            agraph (float[1,4] x) => (float[1,4] y) {
                y = my.domain.QuantizeLinear (x)
            }
            <domain: "my.domain", opset_import: ["": 21]>
            QuantizeLinear (a) => (b) {
                b = Relu (a)
            }
        a domain that nobody knows:
            <ir_version: 10, opset_import: ["": 21, "my.domain": 1]>
            agraph (float[1,4] x) => (float[1,4] y) <float s = {0.1}, int8 z = {0}> {
                q = my.domain.QuantizeLinear (x, s, z)
                y = DequantizeLinear (q, s, z)
            }
    """)

    def check(self, context: RuleContext, target: Target) -> Faults:
        """Find these names in other domains."""
        for node in context.nodes:
            if node.op_type not in {QUANTIZE, DEQUANTIZE}:
                continue
            local = context.called(node) is not None
            # The Q/DQ of com.microsoft are the standard operators. A local function has precedence over them, except in
            # TensorRT, which compares only names.
            if (node.domain in DOMAINS and not local) or (local and target.family != "tensorrt"):
                continue
            origin = "a local function" if local else f"domain '{node.domain}'"
            message = f"this {node.op_type} comes from {origin}"
            impact = REFUSED if _is_refused(context, node, target) else None
            yield Fault(message, node, found=origin, expected="the default domain", impact=impact)


def _is_refused(context: RuleContext, node: NodeView, target: Target) -> bool:
    """Return whether the built-in operator refuses the inputs of a node with its name."""
    if len(node.proto.input) < 2:
        return True
    given = context.elem_type(node.input(0))
    legal = target.data_types if node.op_type == QUANTIZE else target.dequantize_types
    return given is not None and kind(given) not in legal
