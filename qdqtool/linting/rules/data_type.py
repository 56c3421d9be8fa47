"""QP109: a Q that reads data of a type it cannot quantize."""

from qdqtool.linting.rules.support.rule import REFUSED, Fault, Faults, Rule, examples, impacts
from qdqtool.linting.rules.support.rule_context import RuleContext
from qdqtool.linting.rules.support.words import kind, listed
from qdqtool.models.targets import Target


class DataType(Rule):
    """A Q reads float data.

    Why it matters: codes cannot be quantized again, and the int32 data that the specification allows has no kernel in
    ONNX Runtime or TensorRT.

    Bad: a Q that reads the output of a Q.

    Good: a DQ between them.
    """

    code = "QP109"
    name = "parameters.data-type"
    affects = impacts(onnx=REFUSED, ort_cpu=REFUSED, tensorrt=REFUSED)
    remedy = "dequantize or cast the data first"
    VALID = examples("""
        float data:
            $ONE_PAIR
    """)
    INVALID = examples("""
        a Q behind a Q:
            agraph (float[1,4] x) => (float[1,4] y) <float s = {0.1}, int8 z = {0}> {
                q = QuantizeLinear (x, s, z)
                qq = QuantizeLinear (q, s, z)
                y = DequantizeLinear (qq, s, z)
            }
        int32 data [ort-cpu, tensorrt, tensorrt-rtx]:
            agraph (int32[1,4] x) => (float[1,4] y) <float s = {0.1}, int8 z = {0}> {
                $PAIR_TO_Y
            }
    """)

    def check(self, context: RuleContext, target: Target) -> Faults:
        """Compare the data type of each Q with the target's table."""
        for entry in context.qdq.quantizers():
            given = context.elem_type(entry.data)
            if given is not None and kind(given) not in target.data_types:
                message = f"this Q reads {kind(given)}"
                yield Fault(message, entry.node, entry.data, found=kind(given), expected=listed(target.data_types))
