"""QM613: stored parameters whose data does not fit their shape."""

from qdqtool.linting.rules.support.rule import REFUSED, Fault, Faults, Rule, examples, impacts
from qdqtool.linting.rules.support.rule_context import RuleContext
from qdqtool.models.graph.index.view import Value
from qdqtool.models.targets import Target


class UnreadableParameter(Rule):
    """The stored data of a scale or zero point fits its shape and type.

    Why it matters: every runtime refuses a damaged constant, at load time or later.

    Bad: a scale of shape [4] with data for 3 values.

    Good: a scale of shape [4] with 4 values.
    """

    code = "QM613"
    name = "model.unreadable-parameter"
    affects = impacts(onnx=REFUSED, ort_cpu=REFUSED, tensorrt=REFUSED)
    remedy = "write the constant again"
    VALID = examples("""
        two values of shape [2]:
            agraph (float[1,2] x) => (float[1,2] y)
            <int8[2,2] w = {1,2,3,4}, float[2] ws = {0.1, 0.2}, int8[2] wz = {0,0}> {
                wd = DequantizeLinear <axis = 1> (w, ws, wz)
                y = MatMul (x, wd)
            }
    """)
    INVALID = examples("""
        one value of shape [2]:
            agraph (float[1,2] x) => (float[1,2] y)
            <int8[2,2] w = {1,2,3,4}, float[2] ws = {0.1}, int8[2] wz = {0,0}> {
                wd = DequantizeLinear <axis = 1> (w, ws, wz)
                y = MatMul (x, wd)
            }
    """)

    def check(self, context: RuleContext, target: Target) -> Faults:
        """Read every scale and zero point once."""
        seen: set[Value] = set()
        for entry in context.qdq.nodes:
            for value in filter(None, (entry.scale, entry.zero_point)):
                if value in seen:
                    continue
                seen.add(value)
                if context.array(value) is None and value in context.unreadable:
                    message = context.unreadable[value]
                    found = "bytes that do not fit"
                    yield Fault(message, entry.node, value, found=found, expected="as many values as the shape has")
