"""QT406: fp4 activations with one scale, multiplied with fp4 weights."""

from qdqtool.linting.rules.support.blocks import wrong_axis
from qdqtool.linting.rules.support.reach import Operand
from qdqtool.linting.rules.support.rule import REFUSED, Fault, Faults, Rule, examples, impacts
from qdqtool.linting.rules.support.rule_context import RuleContext
from qdqtool.linting.rules.support.words import kind
from qdqtool.models.targets import Target
from qdqtool.numerics.granularity import PerTensor


class Fp4Product(Rule):
    """In a MatMul of fp4 with fp4, the activation has block scales.

    Why it matters: with one scale for the activation the builder does not refuse the model. The builder crashes and
    ends the process, whatever scales the weight has.

    Bad: a per-tensor float4e2m1 pair in front of a MatMul whose weight is float4e2m1 too.

    Good: fp4 weights in blocks of 16, and an activation quantized at run time.
    """

    code = "QT406"
    name = "target.fp4-per-tensor"
    affects = impacts(tensorrt=REFUSED)
    remedy = "use blocks of 16 for the weight and dynamic quantization for the activation, or float8e4m3fn"
    VALID = examples("""
        an fp4 weight alone:
            <ir_version: 11, opset_import: ["": 23]>
            agraph (float[1,2] x) => (float[1,2] y) <float s = {0.1}, float4e2m1[2,2] w = {33, 67}> {
                wd = DequantizeLinear (w, s)
                y = MatMul (x, wd)
            }
    """)
    INVALID = examples("""
        fp4 times fp4:
            <ir_version: 11, opset_import: ["": 23]>
            agraph (float[16,64] x) => (float[16,64] y)
            <float s = {0.1}, float ws = {0.1}, int64[2] n = {64, 64}> {
                q = QuantizeLinear <output_dtype = 23> (x, s)
                xd = DequantizeLinear (q, s)
                w = ConstantOfShape <value = float[1] {0.5}> (n)
                wq = QuantizeLinear <output_dtype = 23> (w, ws)
                wd = DequantizeLinear (wq, ws)
                y = MatMul (xd, wd)
            }
    """)

    def check(self, context: RuleContext, target: Target) -> Faults:
        """Look for MatMul and Gemm with per-tensor fp4 on both sides."""
        for product in context.products:
            node = product.node
            both = all(map(_is_fp4, (product.left, product.right)))
            if not both or not product.op.is_matrix_product or wrong_axis(context, product):
                continue
            assert product.left is not None
            if product.left.dequantize.granularity == PerTensor():
                message = f"{node.op_type} multiplies per-tensor float4e2m1 with float4e2m1"
                found = "a per-tensor activation"
                expected = "block scales for the activation"
                yield Fault(message, node, node.input(product.weight_index), found=found, expected=expected)


def _is_fp4(side: Operand | None) -> bool:
    return side is not None and kind(side.dequantize.quantized_type) == "float4e2m1"
