"""QP104: scales that are computed at run time."""

from qdqtool.linting.rules.support.rule import SILENT, Fault, Faults, Rule, examples, impacts
from qdqtool.linting.rules.support.rule_context import RuleContext
from qdqtool.linting.rules.support.words import short
from qdqtool.models.graph.index.qdq import QdqNode
from qdqtool.models.graph.index.view import Value
from qdqtool.models.targets import Target


class ScaleConstant(Rule):
    """A scale is constant at build time.

    Why it matters: NVIDIA's documentation demands a constant scale, since the builder chooses kernels by it. The parser
    does not enforce this. Some builders accept a scale that is computed at run time, others crash. No rule can check
    its values.

    Bad: a scale that is a graph input, or ReduceMax of the data divided by 127.

    Good: a scale stored in the model, or computed from stored constants only.
    """

    code = "QP104"
    name = "parameters.scale-constant"
    affects = impacts(tensorrt=SILENT)
    remedy = "calibrate and store the scale; for scales made at run time use the dynamic-quantization operators"
    VALID = examples("""
        computed from stored constants:
            agraph (float[1,4] x) => (float[1,4] y) <float amax = {12.7}, float steps = {127}, int8 z = {0}> {
                s = Div (amax, steps)
                $PAIR_TO_Y
            }
    """)
    INVALID = examples("""
        computed from the data:
            agraph (float[1,4] x) => (float[1,4] y) <float steps = {127}, int8 z = {0}> {
                amax = ReduceMax <keepdims = 0> (x)
                s = Div (amax, steps)
                $PAIR_TO_Y
            }
    """)

    def check(self, context: RuleContext, target: Target) -> Faults:
        """Find scales that do not fold to a constant."""
        for entry in context.qdq.nodes:
            scale = entry.scale
            if scale is None or context.is_constant(scale) or _are_made_with_codes(context, entry, scale):
                continue
            maker = f"made by {scale.producer.op_type}" if scale.producer is not None else "an input"
            message = f"scale '{scale.name}' of this {short(entry)} is not constant: it is {maker}"
            expected = "an initializer, a Constant, or a value computed from constants only"
            yield Fault(message, entry.node, scale, found=maker, expected=expected)


def _are_made_with_codes(context: RuleContext, entry: QdqNode, scale: Value) -> bool:
    """Return whether one TensorRT operator makes both codes and scales. For NVFP4, a DQ dequantizes the scales."""
    if not entry.is_dynamic or entry.data is None:
        return False
    dequantizer = context.qdq.dequantizer_of(scale)
    source = dequantizer.data if dequantizer is not None else scale
    return source is not None and source.producer is entry.data.producer
