"""QL311: operands of different types, or of quantized types."""

from qdqtool.linting.rules.support.rule import REFUSED, Fault, Faults, Rule, examples, impacts
from qdqtool.linting.rules.support.rule_context import RuleContext
from qdqtool.linting.rules.support.words import kind
from qdqtool.models.targets import Target
from qdqtool.models.targets import get as get_target


class OperandTypes(Rule):
    """Conv, Gemm and MatMul read operands of one float type.

    Why it matters: codes have no meaning without their DQ, and no operator multiplies float16 with float32. A DQ makes
    the type of its scale (or output_dtype): one float32 scale in a float16 network makes the model invalid.

    Bad: a Conv that reads the output of a Q; a float16 activation with a weight that dequantizes to float32.

    Good: a DQ for each operand, all with the same output type.
    """

    code = "QL311"
    name = "placement.operand-types"
    affects = impacts(onnx=REFUSED, ort_cpu=REFUSED, tensorrt=REFUSED)
    remedy = "dequantize every operand, to one float type: give the scales the type of the activations"
    VALID = examples("""
        both float32:
            agraph (float[1,2] x) => (float[1,2] y) <int8[2,2] w = {1,2,3,4}, float ws = {0.1}, int8 wz = {0}> {
                wd = DequantizeLinear (w, ws, wz)
                y = MatMul (x, wd)
            }
    """)
    INVALID = examples("""
        codes into a MatMul:
            agraph (float[1,2] x) => (float[1,2] y) <float s = {0.1}, int8 z = {0}, float[2,2] w = {1,2,3,4}> {
                q = QuantizeLinear (x, s, z)
                y = MatMul (q, w)
            }
        float16 times float32:
            agraph (float16[1,2] x) => (float16[1,2] y) <int8[2,2] w = {1,2,3,4}, float ws = {0.1}, int8 wz = {0}> {
                wd = DequantizeLinear (w, ws, wz)
                y = MatMul (x, wd)
            }
    """)

    def check(self, context: RuleContext, target: Target) -> Faults:
        """Compare the known types of the operands, bias included."""
        quantized = get_target("onnx").quantize_types
        for product in context.products:
            node, bias = product.node, product.op.bias_input
            indexes = [0, product.weight_index, *([] if bias is None else [bias])]
            typed = ((index, context.elem_type(node.input(index))) for index in indexes)
            types = {index: kind(onnx_type) for index, onnx_type in typed if onnx_type is not None}
            odd = next((index for index in types if types[index] in quantized), None)
            if odd is None:
                odd = next((index for index in types if types[index] != types.get(0, types[index])), None)
            if odd is not None:
                message = f"operand '{node.input_name(odd)}' is {types[odd]}"
                found = ", ".join(types.values())
                yield Fault(message, node, node.input(odd), found=found, expected="operands of one float type")
