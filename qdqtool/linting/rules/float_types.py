"""QT409: Q or DQ of narrow codes with two different float types."""

from qdqtool.linting.rules.fixes.scales import RETYPED, scale_type_fixes
from qdqtool.linting.rules.support.rule import REFUSED, Fault, Faults, Rule, examples, impacts
from qdqtool.linting.rules.support.rule_context import RuleContext
from qdqtool.linting.rules.support.words import FLOAT_NAMES, kind, short
from qdqtool.models.graph.index.qdq import QdqNode
from qdqtool.models.targets import Target

NARROW = frozenset({"int4", "float8e4m3fn", "float4e2m1"})
"""The formats with this limit. For int8, TensorRT's compiler accepts every combination of types."""


class FloatTypes(Rule):
    """The float tensor of a Q or DQ of int4, float4e2m1 or float8e4m3fn has the type of the scale.

    Why it matters: opset 23 lets scale and data have different types, and int8 builds with any combination. For the
    other formats the builder has no such kernel and stops with "No matching rules found for input operand types". Two
    exceptions, with a float32 scale: a Q of int4, and a Q or DQ of fp8, may have a float tensor of another type.

    Bad: int4 weights with float32 scales and output_dtype = FLOAT16.

    Good: the same weights with float16 scales.
    """

    code = "QT409"
    name = "target.float-types"
    affects = impacts(tensorrt=REFUSED)
    remedy = "store the scale in the type of the float tensor"
    offers = (RETYPED,)
    VALID = examples("""
        int8 takes any mix [tensorrt, tensorrt-rtx]:
            <ir_version: 11, opset_import: ["": 23]>
            agraph (float16[1,2] x) => (float16[1,2] y) <int8[2,2] w = {1,2,3,4}, float s = {0.1}> {
                wd = DequantizeLinear <output_dtype = 10> (w, s)
                y = MatMul (x, wd)
            }
        fp8 takes float32 scales [tensorrt, tensorrt-rtx]:
            <ir_version: 11, opset_import: ["": 23]>
            agraph (float16[1,4] x) => (float16[1,4] y) <float s = {0.1}, float8e4m3fn z = {0}> {
                q = QuantizeLinear (x, s, z)
                y = DequantizeLinear <output_dtype = 10> (q, s, z)
            }
    """)
    INVALID = examples("""
        int4 with float32 scales, dequantized to float16:
            <ir_version: 11, opset_import: ["": 23]>
            agraph (float16[1,2] x) => (float16[1,2] y) <int4[2,2] w = {33, 67}, float s = {0.1}> {
                wd = DequantizeLinear <output_dtype = 10> (w, s)
                y = MatMul (x, wd)
            }
        a float16 scale (bits 11878 are 0.1) for float32 data in fp8:
            <ir_version: 11, opset_import: ["": 23]>
            agraph (float[1,4] x) => (float[1,4] y) <float16 s = {11878}, float8e4m3fn z = {0}> {
                q = QuantizeLinear (x, s, z)
                y = DequantizeLinear <output_dtype = 1> (q, s, z)
            }
    """)

    def check(self, context: RuleContext, target: Target) -> Faults:
        """Compare the float types of every Q and DQ of a narrow type."""
        for entry in context.qdq.nodes:
            quantized = kind(entry.quantized_type)
            if quantized not in NARROW:
                continue
            side = context.elem_type(entry.data) if entry.is_quantize else context.output_type(entry)
            given, wanted = kind(context.elem_type(entry.scale)), kind(side)
            if given == wanted or not {given, wanted} <= FLOAT_NAMES or _converts(quantized, given, entry):
                continue
            message = (
                f"the scale of this {short(entry)} is {given}, "
                f"its {'input' if entry.is_quantize else 'output'} is {wanted}"
            )
            found = f"{given} and {wanted}"
            fixes = scale_type_fixes(entry, wanted)
            yield Fault(message, entry.node, entry.scale, found=found, expected=f"{wanted} for both", fixes=fixes)


def _converts(quantized: str, scale: str, entry: QdqNode) -> bool:
    """Return whether TensorRT builds a Q or DQ whose scale has another float type than its data."""
    # Measured with TensorRT for RTX over all combinations of the three float types.
    if scale != "float32":
        return False
    return quantized == "float8e4m3fn" or (quantized == "int4" and entry.is_quantize)
