"""QT405: operands of two quantized types that no kernel multiplies."""

from qdqtool.linting.rules.fixes.stored import WIDER, wider_fixes
from qdqtool.linting.rules.support.blocks import wrong_axis
from qdqtool.linting.rules.support.reach import Operand, Product
from qdqtool.linting.rules.support.rule import REFUSED, Fault, Faults, Rule, examples, impacts
from qdqtool.linting.rules.support.rule_context import RuleContext
from qdqtool.linting.rules.support.words import kind
from qdqtool.models.targets import Target
from qdqtool.numerics.granularity import PerTensor


class OperandFormats(Rule):
    """A kernel exists for the types of the two operands of a Conv, Gemm or MatMul.

    Why it matters: except for int8 with int4 in a MatMul, kernels multiply operands of the same type. Convolutions
    exist only for int8 and fp8. The builder stops with "Input and filter have to be the same type" and does not name
    the node. Different layers of a network may use different types.

    Bad: an int8 activation and an fp8 weight; int4 times int4 in a Conv.

    Good: int8 for both.
    """

    code = "QT405"
    name = "target.operand-formats"
    affects = impacts(tensorrt=REFUSED)
    remedy = "quantize both operands to int8, or both to float8e4m3fn"
    offers = (WIDER,)
    VALID = examples("""
        fp8 for both:
            agraph (float[1,2] x) => (float[1,2] y)
            <float s = {0.1}, float8e4m3fn z = {0}, float8e4m3fn[2,2] w = {56,56,56,56}> {
                $PAIR_TO_XD
                wd = DequantizeLinear (w, s, z)
                y = MatMul (xd, wd)
            }
        an int8 activation and an int4 weight with a scale for each column:
            agraph (float[8,2] x) => (float[8,2] y)
            <float s = {0.1}, int8 z = {0}, int4[2,2] w = {33, 67}, float[2] ws = {0.1, 0.2}> {
                $PAIR_TO_XD
                wd = DequantizeLinear <axis = 1> (w, ws)
                y = MatMul (xd, wd)
            }
    """)
    INVALID = examples("""
        int8 times fp8:
            agraph (float[1,2] x) => (float[1,2] y)
            <float s = {0.1}, int8 z = {0}, float8e4m3fn wz = {0}, float8e4m3fn[2,2] w = {56,56,56,56}> {
                $PAIR_TO_XD
                wd = DequantizeLinear (w, s, wz)
                y = MatMul (xd, wd)
            }
        int8 times int4 with one scale for the weight:
            agraph (float[8,2] x) => (float[8,2] y) <float s = {0.1}, int8 z = {0}, int4[2,2] w = {33, 67}> {
                $PAIR_TO_XD
                wd = DequantizeLinear (w, s)
                y = MatMul (xd, wd)
            }
        int4 times int4 in a Conv:
            agraph (float[1,2,2,2] x) => (float[1,2,2,2] y)
            <float s = {0.1}, int4 z = {0}, int4[2,2,1,1] w = {33, 67}> {
                $PAIR_TO_XD
                wd = DequantizeLinear (w, s)
                y = Conv (xd, wd)
            }
    """)

    def check(self, context: RuleContext, target: Target) -> Faults:
        """Look up the two types, unless the layer runs in float because of a wrong weight axis."""
        for product in context.products:
            if product.left is None or product.right is None or wrong_axis(context, product):
                continue
            left, right = (kind(side.dequantize.quantized_type) for side in (product.left, product.right))
            known = {left, right} <= target.quantize_types
            if known and not _multiplies(product, product.right, left, right):
                yield Fault(
                    message=f"{product.node.op_type} multiplies {left} with {right}",
                    node=product.node,
                    tensor=product.node.input(product.weight_index),
                    found=f"{left} and {right}",
                    expected="int8 for both or float8e4m3fn for both",
                    fixes=wider_fixes(product.right.dequantize) if left == "int8" else (),
                )


def _multiplies(product: Product, weight: Operand, left: str, right: str) -> bool:
    # Measured with the builder of TensorRT for RTX over all combinations of types.
    matrix = product.op.is_matrix_product
    if left == right:
        return matrix or left in {"int8", "float8e4m3fn"}
    if product.node.is_op("ConvTranspose"):
        # The layer runs in float. If one operand is int8, the builder accepts any type of the other.
        return "int8" in {left, right}
    if matrix and {left, right} == {"int8", "int4"}:
        return weight.dequantize.granularity != PerTensor()
    return False
