"""QL308: quantized layers that are too small to become faster."""

from qdqtool.linting.rules.fixes.unquantize import FLOAT_LAYER, float_layer
from qdqtool.linting.rules.support.reach import Product
from qdqtool.linting.rules.support.rule import ADVICE, Fault, Faults, Rule, examples, impacts
from qdqtool.linting.rules.support.rule_context import RuleContext
from qdqtool.models.ops import LEAST_CHANNELS
from qdqtool.models.targets import Target


class TinyProduct(Rule):
    """A quantized Conv, Gemm or MatMul has at least 16 input or output channels.

    Why it matters: int8 and fp8 kernels multiply tiles of at least 16 channels. If both sides of the weight are
    smaller, the tile is mostly padding. Such a layer takes little time in float, and Q and DQ only add to it.

    Bad: pairs on a MatMul with a 4 x 8 weight.

    Good: such a layer in float. One small side is fine: the first Conv of an image model has 3 input channels. A model
    without a larger layer is not reported: it is probably a test model.
    """

    code = "QL308"
    name = "placement.tiny-product"
    affects = impacts(tensorrt=ADVICE)
    remedy = "remove the pairs, unless the neighboring layers need the codes"
    offers = (FLOAT_LAYER,)
    VALID = examples("""
        one small side:
            agraph (float[1,2] x) => (float[1,16] y)
            <float s = {0.1}, int8 z = {0},
             int8[2,16] w = {1,2,3,4,5,6,7,8,9,1,2,3,4,5,6,7,8,9,1,2,3,4,5,6,7,8,9,1,2,3,4,5}, float ws = {0.1}> {
                $PAIR_TO_XD
                wd = DequantizeLinear (w, ws, z)
                y = MatMul (xd, wd)
            }
    """)
    INVALID = examples("""
        2 by 2:
            agraph (float[1,2] x) => (float[1,16] y)
            <float s = {0.1}, int8 z = {0}, int8[2,2] w = {1,2,3,4},
             int8[2,16] v = {1,2,3,4,5,6,7,8,9,1,2,3,4,5,6,7,8,9,1,2,3,4,5,6,7,8,9,1,2,3,4,5}, float ws = {0.1}> {
                $PAIR_TO_XD
                wd = DequantizeLinear (w, ws, z)
                m = MatMul (xd, wd)
                mq = QuantizeLinear (m, s, z)
                md = DequantizeLinear (mq, s, z)
                vd = DequantizeLinear (v, ws, z)
                y = MatMul (md, vd)
            }
    """)

    def check(self, context: RuleContext, target: Target) -> Faults:
        """Look at the weight of each quantized product, except grouped convolutions: these have other kernels."""
        known = {product: sides for product in context.products if (sides := _sides(context, product)) is not None}
        tiny = {product: sides for product, sides in known.items() if max(sides) < LEAST_CHANNELS}
        for product, (inner, outer) in tiny.items() if len(tiny) < len(known) else ():
            message = f"the weight has {inner} input and {outer} output channels"
            weight, fix = product.node.input(product.weight_index), float_layer(product)
            found, expected = f"{inner} and {outer} channels", f"at least {LEAST_CHANNELS} on one side"
            yield Fault(message, product.node, weight, found=found, expected=expected, fixes=(fix,))


def _sides(context: RuleContext, product: Product) -> tuple[int, int] | None:
    weight = product.node.input(product.weight_index)
    quantized = (
        product.left is not None and product.right is not None and context.qdq.is_weight(product.right.dequantize)
    )
    shape = context.shape(weight) if quantized else None
    return product.op.channels(product.node, shape) if shape is not None else None
