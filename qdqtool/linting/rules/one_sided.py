"""QL302: operators of which only one side is quantized."""

from collections.abc import Iterator

from qdqtool.linting.rules.fixes.pairing import OFFERS, pairing_fixes
from qdqtool.linting.rules.support.reach import Product
from qdqtool.linting.rules.support.rule import FALLBACK, Fault, Rule, examples, impacts
from qdqtool.linting.rules.support.rule_context import RuleContext
from qdqtool.models.targets import Target


class OneSided(Rule):
    """Both operands of a Conv, Gemm or MatMul are quantized, or neither, or (of Gemm and MatMul) the weight alone.

    Why it matters: int8 and fp8 kernels need both operands in that type. With one of them in float the layer runs in
    float, and the pair costs time and accuracy for nothing.

    Bad: a pair on the input of a Conv whose weight stays float.

    Good: a pair on both. Weight-only quantization of a MatMul is fine: the weight stays small.
    """

    code = "QL302"
    name = "placement.one-sided"
    affects = impacts(tensorrt=FALLBACK)
    remedy = "put a pair on the other operand too, or take this one away"
    offers = OFFERS
    VALID = examples("""
        activation and weight:
            agraph (float[1,2] x) => (float[1,2] y)
            <float s = {0.1}, int8 z = {0}, int8[2,2] w = {1,2,3,4}, float[2] ws = {0.1, 0.2}, int8[2] wz = {0,0}> {
                q = QuantizeLinear (x, s, z)
                xd = DequantizeLinear (q, s, z)
                wd = DequantizeLinear <axis = 1> (w, ws, wz)
                y = MatMul (xd, wd)
            }
        the weight of a MatMul alone:
            agraph (float[1,2] x) => (float[1,2] y)
            <int8[2,2] w = {1,2,3,4}, float[2] ws = {0.1, 0.2}, int8[2] wz = {0,0}> {
                wd = DequantizeLinear <axis = 1> (w, ws, wz)
                y = MatMul (x, wd)
            }
    """)
    INVALID = examples("""
        a Conv with a float weight:
            agraph (float[1,1,2,2] x) => (float[1,1,2,2] y) <float s = {0.1}, int8 z = {0}, float[1,1,1,1] w = {0.5}> {
                q = QuantizeLinear (x, s, z)
                xd = DequantizeLinear (q, s, z)
                [c] y = Conv (xd, w)
            }
        a Conv with a float activation:
            agraph (float[1,2,2,2] x) => (float[1,2,2,2] y)
            <int8[2,2,1,1] w = {1,2,3,4}, float[2] ws = {0.1, 0.2}, int8[2] wz = {0,0}> {
                wd = DequantizeLinear <axis = 0> (w, ws, wz)
                [c] y = Conv (x, wd)
            }
    """)

    def check(self, context: RuleContext, target: Target) -> Iterator[Fault]:
        """Compare the two operands of each weighted operator."""
        del target
        for product in context.products:
            if (product.left is None) != (product.right is None) and not _weight_only(context, product):
                order = (0, product.weight_index)
                quantized, other = order if product.left is not None else reversed(order)
                pair, without = _side(context, product, quantized), _side(context, product, other)
                yield Fault(
                    message=f"{pair} is quantized, {without} is not",
                    node=product.node,
                    tensor=product.node.input(other),
                    found="one operand quantized",
                    expected="both or neither",
                    fixes=pairing_fixes(context, product),
                )


def _weight_only(context: RuleContext, product: Product) -> bool:
    found = product.left or product.right
    assert found is not None
    return product.op.is_matrix_product and context.qdq.is_weight(found.dequantize)


def _side(context: RuleContext, product: Product, index: int) -> str:
    node, found = product.node, product.right if index else product.left
    value = node.input(index)
    constant = context.qdq.is_weight(found.dequantize) if found else value is not None and context.is_constant(value)
    return f"the {'weight' if constant else 'activation'} '{node.input_name(index)}'"
