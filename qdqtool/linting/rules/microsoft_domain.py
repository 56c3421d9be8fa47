"""QS010: Q/DQ of com.microsoft that ONNX has too."""

from qdqtool.linting.rules.support.extents import needs
from qdqtool.linting.rules.support.fix import Draft, Offer, UnfitError
from qdqtool.linting.rules.support.rule import ADVICE, CAUTION, Fault, Faults, Rule, examples, impacts
from qdqtool.linting.rules.support.rule_context import RuleContext
from qdqtool.linting.rules.support.words import kind, short
from qdqtool.models.graph.edits.edit import SetDomain
from qdqtool.models.graph.index.qdq import MICROSOFT, QdqNode
from qdqtool.models.targets import Target
from qdqtool.models.targets import get as get_target

STANDARD = Offer("safe", "moves the node to the standard domain")


class MicrosoftDomain(Rule):
    """Q and DQ are the operators of ONNX, not of com.microsoft.

    Why it matters: before opset 21, ONNX Runtime's quantizer wrote 16-bit and 4-bit Q/DQ in its own domain. These
    operators mean the same as those of ONNX, but only ONNX Runtime knows the domain. TensorRT ignores it, and other
    tools refuse the model.

    Bad: com.microsoft.QuantizeLinear (x, scale, zero_point).

    Good: QuantizeLinear (x, scale, zero_point).
    """

    code = "QS010"
    name = "spec.microsoft-domain"
    affects = impacts(onnx=CAUTION, tensorrt=ADVICE)
    remedy = "use the standard domain, at an opset that has the type"
    offers = (STANDARD,)
    VALID = examples("""
        the standard domain:
            $ONE_PAIR
    """)
    INVALID = examples("""
        com.microsoft:
            <ir_version: 10, opset_import: ["": 21, "com.microsoft": 1]>
            agraph (float[1,4] x) => (float[1,4] y) <float s = {0.1}, int8 z = {0}> {
                q = com.microsoft.QuantizeLinear (x, s, z)
                y = com.microsoft.DequantizeLinear (q, s, z)
            }
    """)

    def check(self, context: RuleContext, target: Target) -> Faults:
        """Look at the domain of every Q and DQ."""
        for entry in context.qdq.nodes:
            if entry.node.domain == MICROSOFT:
                message = f"this {short(entry)} is in domain {entry.node.domain}"
                fix = STANDARD.fix(f"moves this {short(entry)} to the standard domain", _move, entry)
                yield Fault(message, entry.node, found=entry.node.domain, expected="the standard domain", fixes=(fix,))


def _move(entry: QdqNode, draft: Draft) -> None:
    opset, standard = entry.node.scope.opset, get_target("onnx")
    legal = standard.quantize_types if entry.is_quantize else standard.dequantize_types
    what, first = max(needs(draft.context, entry), key=lambda need: need[1])
    if kind(entry.quantized_type) not in legal or opset < first:
        raise UnfitError(f"opset {opset} has no {short(entry)} with {what}")
    draft.edits.append(SetDomain(entry.node.scope.path, entry.node.key, ""))
    if entry.scale_shape not in {(), (1,)}:
        draft.set_attribute(entry.node, "axis", entry.axis)
