"""QS008: Q/DQ nodes that lack an input or output."""

from qdqtool.errors import plural
from qdqtool.linting.rules.support.rule import REFUSED, Fault, Faults, Rule, examples, impacts
from qdqtool.linting.rules.support.rule_context import RuleContext
from qdqtool.linting.rules.support.words import short
from qdqtool.models.graph.index.qdq import QdqNode
from qdqtool.models.targets import Target


class MalformedNode(Rule):
    """A Q or DQ has data, a scale, at most a zero point, and one output.

    Why it matters: no runtime loads such a node.

    Bad: QuantizeLinear (x).

    Good: QuantizeLinear (x, scale, zero_point).
    """

    code = "QS008"
    name = "spec.malformed-node"
    affects = impacts(onnx=REFUSED, ort_cpu=REFUSED, tensorrt=REFUSED)
    remedy = "export the node again, with data and scale"
    VALID = examples("""
        two inputs and a zero point:
            agraph (float[1,4] x) => (float[1,4] y) <float s = {0.1}, int8 z = {0}> {
                q = QuantizeLinear (x, s, z)
                y = DequantizeLinear (q, s)
            }
    """)
    INVALID = examples("""
        no scale:
            agraph (float[1,4] x) => (float[1,4] y) <float s = {0.1}, int8 z = {0}> {
                q = QuantizeLinear (x)
                y = DequantizeLinear (q, s, z)
            }
        a scale without a name:
            agraph (float[1,4] x) => (float[1,4] y) <float s = {0.1}, int8 z = {0}> {
                q = QuantizeLinear (x, "", z)
                y = DequantizeLinear (q, s, z)
            }
    """)

    def check(self, context: RuleContext, target: Target) -> Faults:
        """Count the inputs and outputs."""
        for entry in context.qdq.nodes:
            found = _problem(entry)
            if found is not None:
                expected = "data, scale, an optional zero point, and one output"
                yield Fault(f"this {short(entry)} has {found}", entry.node, found=found, expected=expected)


def _problem(entry: QdqNode) -> str | None:
    inputs, outputs = entry.node.proto.input, entry.node.proto.output
    if len(inputs) < 2:
        return plural(len(inputs), "input")
    if not inputs[0]:
        return "no data"
    if not inputs[1]:
        return "no scale"
    if len(inputs) > 3:
        return f"{len(inputs)} inputs"
    return None if len(outputs) == 1 and outputs[0] else f"{sum(map(bool, outputs))} outputs"
