"""QP112: a precision attribute that runtimes do not apply."""

from qdqtool.linting.rules.support.rule import SUSPECT, Fault, Faults, Rule, examples, impacts
from qdqtool.linting.rules.support.rule_context import RuleContext
from qdqtool.linting.rules.support.words import kind
from qdqtool.models.graph.index.qdq import integer_attribute
from qdqtool.models.targets import Target


class PrecisionAttribute(Rule):
    """The precision attribute of a Q, if there is one, is the type of its scale.

    Why it matters: from opset 23 on, the attribute is the type in which data is divided by the scale. ONNX Runtime does
    not read it and divides in float32. TensorRT divides in the scale's type and only warns. Values halfway between two
    codes may be rounded differently, so no runtime computes what the file defines. There is no fix: only the author
    knows whether the attribute or the scale is right.

    Bad: precision = FLOAT16 beside a float32 scale.

    Good: leave the attribute out.
    """

    code = "QP112"
    name = "parameters.precision"
    affects = impacts(ort_cpu=SUSPECT, tensorrt=SUSPECT)
    remedy = "remove the attribute, or store the scale in its type"
    VALID = examples("""
        the type of the scale:
            <ir_version: 11, opset_import: ["": 23]>
            agraph (float[1,4] x) => (float[1,4] y) <float s = {0.1}, int8 z = {0}> {
                q = QuantizeLinear <precision = 1> (x, s, z)
                y = DequantizeLinear (q, s, z)
            }
    """)
    INVALID = examples("""
        float16 beside a float32 scale:
            <ir_version: 11, opset_import: ["": 23]>
            agraph (float[1,4] x) => (float[1,4] y) <float s = {0.1}, int8 z = {0}> {
                q = QuantizeLinear <precision = 10> (x, s, z)
                y = DequantizeLinear (q, s, z)
            }
    """)

    def check(self, context: RuleContext, target: Target) -> Faults:
        """Compare the attribute with the type of the scale."""
        for entry in context.qdq.quantizers():
            asked = integer_attribute(entry.node, "precision") if entry.node.proto.attribute else None
            given = context.elem_type(entry.scale) if asked else None
            if given is not None and asked != given:
                message = f"precision is {kind(asked)}, the scale of this Q is {kind(given)}"
                expected = f"{kind(given)}, or no attribute"
                yield Fault(message, entry.node, entry.scale, found=kind(asked), expected=expected)
