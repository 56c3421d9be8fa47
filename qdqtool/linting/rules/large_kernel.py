"""QL316: fp8 convolutions with windows too large for fp8 kernels."""

from qdqtool.linting.rules.support.reach import Product
from qdqtool.linting.rules.support.rule import FALLBACK, Fault, Faults, Rule, examples, impacts
from qdqtool.linting.rules.support.rule_context import RuleContext
from qdqtool.linting.rules.support.words import format_of
from qdqtool.models.targets import Target
from qdqtool.numerics.number_format import NumberFormat


class LargeKernel(Rule):
    """A Conv with a window of more than 32 elements is not quantized in fp8.

    Why it matters: TensorRT has fp8 convolutions for windows (the ``kernel_shape``) of up to 32 elements, in one, two
    and three dimensions. A larger convolution runs in float: Q and DQ only cost time. The 7 x 7 stem of a ResNet and
    the 16 x 16 patches of a vision transformer are such layers. int8 has no limit.

    Bad: fp8 pairs around a 7 x 7 Conv.

    Good: that Conv in float and the others in fp8; or all of them in int8.
    """

    code = "QL316"
    name = "placement.large-kernel"
    affects = impacts(tensorrt=FALLBACK)
    remedy = "remove the pairs of this Conv, or quantize it in int8"
    VALID = examples("""
        5 x 5 in fp8:
            agraph (float[1,16,8,8] x) => (float[1,16,4,4] y)
            <float s = {0.1}, float8e4m3fn z = {0}, int64[4] n = {16, 16, 5, 5}> {
                $PAIR_TO_XD
                w = ConstantOfShape <value = float[1] {0.5}> (n)
                wq = QuantizeLinear (w, s, z)
                wd = DequantizeLinear (wq, s, z)
                y = Conv (xd, wd)
            }
        7 x 7 in int8:
            agraph (float[1,16,8,8] x) => (float[1,16,2,2] y)
            <float s = {0.1}, int8 z = {0}, int64[4] n = {16, 16, 7, 7}> {
                $PAIR_TO_XD
                w = ConstantOfShape <value = float[1] {0.5}> (n)
                wq = QuantizeLinear (w, s, z)
                wd = DequantizeLinear (wq, s, z)
                y = Conv (xd, wd)
            }
    """)
    INVALID = examples("""
        7 x 7 in fp8:
            agraph (float[1,16,8,8] x) => (float[1,16,2,2] y)
            <float s = {0.1}, float8e4m3fn z = {0}, int64[4] n = {16, 16, 7, 7}> {
                $PAIR_TO_XD
                w = ConstantOfShape <value = float[1] {0.5}> (n)
                wq = QuantizeLinear (w, s, z)
                wd = DequantizeLinear (wq, s, z)
                [c] y = Conv (xd, wd)
            }
    """)

    def check(self, context: RuleContext, target: Target) -> Faults:
        """Compare the window of each quantized convolution with the kernels of its format."""
        for product in context.products:
            number_format = _format(product)
            weight = product.node.input(product.weight_index)
            shape = context.shape(weight) if weight is not None else None
            if number_format is None or shape is None:
                continue
            missing = product.op.missing_kernel(product.node, shape, number_format)
            if missing is not None:
                yield Fault(missing, product.node, weight, found=number_format.name, expected="float, or int8")


def _format(product: Product) -> NumberFormat | None:
    """Return the format of a product if both operands are quantized."""
    if product.left is None or product.right is None:
        return None
    return format_of(product.right.dequantize.quantized_type)
