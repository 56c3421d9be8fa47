"""QP110: fp8 without saturation."""

from qdqtool.linting.rules.support.fix import Draft, Offer
from qdqtool.linting.rules.support.rule import SUSPECT, Fault, Faults, Rule, examples, impacts
from qdqtool.linting.rules.support.rule_context import RuleContext
from qdqtool.linting.rules.support.words import kind
from qdqtool.models.graph.index.qdq import QdqNode
from qdqtool.models.targets import Target

SATURATED = Offer("unsafe", "sets saturate to 1: values that became NaN or infinity become the largest value")


class SaturateOff(Rule):
    """An fp8 Q saturates.

    Why it matters: with saturate = 0 values beyond the range become NaN or infinity in ONNX. TensorRT ignores the
    attribute and returns the largest code, so the results differ for every clipped value.

    Bad: QuantizeLinear <saturate = 0>.

    Good: leave the attribute out.
    """

    code = "QP110"
    name = "parameters.saturate"
    affects = impacts(tensorrt=SUSPECT)
    remedy = "leave saturate at its default, 1"
    offers = (SATURATED,)
    VALID = examples("""
        saturate is left out:
            agraph (float[1,4] x) => (float[1,4] y) <float s = {0.1}, float8e4m3fn z = {0}> {
                $PAIR_TO_Y
            }
    """)
    INVALID = examples("""
        saturate = 0:
            agraph (float[1,4] x) => (float[1,4] y) <float s = {0.1}, float8e4m3fn z = {0}> {
                q = QuantizeLinear <saturate = 0> (x, s, z)
                y = DequantizeLinear (q, s, z)
            }
    """)

    def check(self, context: RuleContext, target: Target) -> Faults:
        """Look at the attribute of each Q to fp8."""
        for entry in context.qdq.quantizers():
            if kind(entry.quantized_type).startswith("float8") and entry.node.attribute("saturate", 1) == 0:
                fix = SATURATED.fix("leaves saturate out", _leave_out, entry)
                yield Fault("saturate is 0", entry.node, entry.output, found="0", expected="1 or absent", fixes=(fix,))


def _leave_out(entry: QdqNode, draft: Draft) -> None:
    draft.set_attribute(entry.node, "saturate", None)
