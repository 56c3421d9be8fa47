"""QT404: zero points that are given as an empty name."""

from qdqtool.linting.rules.support.fix import Draft, Offer
from qdqtool.linting.rules.support.rule import REFUSED, Fault, Faults, Rule, examples, impacts
from qdqtool.linting.rules.support.rule_context import RuleContext
from qdqtool.linting.rules.support.words import short
from qdqtool.models.graph.index.qdq import QdqNode
from qdqtool.models.targets import Target

LEFT_OUT = Offer("safe", "leaves the third input out")


class ZeroPointEmpty(Rule):
    """An absent zero point is left out, not given as an empty name.

    Why it matters: ONNX allows an empty name for an optional input, and ONNX Runtime runs such a node. TensorRT's
    parser refuses it with "Invalid Node" and no reason.

    Bad: DequantizeLinear (q, scale, "").

    Good: DequantizeLinear (q, scale), or with a zero point.
    """

    code = "QT404"
    name = "target.zero-point-empty-name"
    affects = impacts(tensorrt=REFUSED)
    remedy = "leave the third input out, or give a zero point of zeros"
    offers = (LEFT_OUT,)
    VALID = examples("""
        left out:
            agraph (float[1,4] x) => (float[1,4] y) <float s = {0.1}, int8 z = {0}> {
                q = QuantizeLinear (x, s, z)
                y = DequantizeLinear (q, s)
            }
    """)
    INVALID = examples("""
        an empty name:
            agraph (float[1,4] x) => (float[1,4] y) <float s = {0.1}, int8 z = {0}> {
                q = QuantizeLinear (x, s, z)
                y = DequantizeLinear (q, s, "")
            }
    """)

    def check(self, context: RuleContext, target: Target) -> Faults:
        """Find third inputs with an empty name."""
        for entry in context.qdq.nodes:
            if len(entry.node.proto.input) > 2 and not entry.node.proto.input[2]:
                message = f"the zero point of this {short(entry)} is the empty name ''"
                fix = LEFT_OUT.fix("leaves the third input out", _leave_out, entry)
                yield Fault(message, entry.node, found="''", expected="a tensor, or two inputs only", fixes=(fix,))


def _leave_out(entry: QdqNode, draft: Draft) -> None:
    draft.set_input(entry.node, 2, "")
