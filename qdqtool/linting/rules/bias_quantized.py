"""QL301: biases that are stored as codes."""

from onnx import TensorProto

from qdqtool.linting.rules.fixes.unquantize import FLOAT, float_fix
from qdqtool.linting.rules.support.blocks import is_bias
from qdqtool.linting.rules.support.rule import CAUTION, REFUSED, Fault, Faults, Rule, examples, impacts
from qdqtool.linting.rules.support.rule_context import RuleContext
from qdqtool.linting.rules.support.words import kind
from qdqtool.models.targets import Target


class BiasQuantized(Rule):
    """A bias stays float.

    Why it matters: kernels add the bias to the accumulator. ONNX Runtime's quantizer stores it as int32 with a DQ.
    TensorRT's parser refuses this DQ. An int8 bias loads but is converted back to float: it only loses accuracy.

    Bad: Conv (x, w, DequantizeLinear (bias_int32, scale)).

    Good: Conv (x, w, bias) with the float bias.
    """

    code = "QL301"
    name = "placement.bias"
    affects = impacts(tensorrt=REFUSED)
    remedy = "store the bias as float (in ONNX Runtime: QuantizeBias=False)"
    offers = (FLOAT,)
    cause = "biases stored as codes"
    VALID = examples("""
        a float bias:
            agraph (float[1,2,2,2] x) => (float[1,2,2,2] y)
            <float s = {0.1}, int8 z = {0}, int8[2,2,1,1] w = {1,2,3,4}, float[2] ws = {0.1, 0.2}, int8[2] wz = {0,0},
             float[2] b = {0.5, -0.5}> {
                $PAIR_TO_XD
                wd = DequantizeLinear <axis = 0> (w, ws, wz)
                y = Conv (xd, wd, b)
            }
    """)
    INVALID = examples("""
        an int32 bias, as ONNX Runtime's quantizer writes it:
            agraph (float[1,2,2,2] x) => (float[1,2,2,2] y)
            <float s = {0.1}, int8 z = {0}, int8[2,2,1,1] w = {1,2,3,4}, float[2] ws = {0.1, 0.2}, int8[2] wz = {0,0},
             int32[2] b = {50, -25}, float[2] bs = {0.01, 0.02}, int32[2] bz = {0, 0}> {
                $PAIR_TO_XD
                wd = DequantizeLinear <axis = 0> (w, ws, wz)
                bd = DequantizeLinear <axis = 0> (b, bs, bz)
                y = Conv (xd, wd, bd)
            }
        an int8 bias:
            agraph (float[1,2,2,2] x) => (float[1,2,2,2] y)
            <float s = {0.1}, int8 z = {0}, int8[2,2,1,1] w = {1,2,3,4}, float[2] ws = {0.1, 0.2}, int8[2] wz = {0,0},
             int8[2] b = {50, -25}, float bs = {0.01}, int8 bz = {0}> {
                $PAIR_TO_XD
                wd = DequantizeLinear <axis = 0> (w, ws, wz)
                bd = DequantizeLinear (b, bs, bz)
                y = Conv (xd, wd, bd)
            }
    """)

    def check(self, context: RuleContext, target: Target) -> Faults:
        """Look for a DQ that is read only as a bias."""
        for entry in context.qdq.dequantizers():
            if is_bias(entry):
                consumer, stored = entry.uses[0].node, kind(entry.quantized_type)
                message = f"the bias of {consumer.op_type} '{consumer.label}' is stored as {stored}"
                impact = None if entry.quantized_type == TensorProto.INT32 else CAUTION
                fix = float_fix(entry)
                yield Fault(
                    message, entry.node, entry.data, found=stored, expected="a float bias", impact=impact, fixes=(fix,)
                )
