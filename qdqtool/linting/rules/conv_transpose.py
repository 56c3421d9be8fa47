"""QL310: quantized ConvTranspose."""

from qdqtool.linting.rules.fixes.unquantize import FLOAT_LAYER, float_layer
from qdqtool.linting.rules.support.rule import FALLBACK, Fault, Faults, Rule, examples, impacts
from qdqtool.linting.rules.support.rule_context import RuleContext
from qdqtool.models.targets import Target
from qdqtool.numerics.granularity import PerAxis


class ConvTranspose(Rule):
    """A ConvTranspose is not quantized, or its weight has one scale.

    Why it matters: TensorRT for RTX always runs it in float, so pairs only cost time and accuracy. For TensorRT the
    axis is unclear. The output channel is axis 1 in ONNX, but users report that NVIDIA's kernels need axis 0 and refuse
    axis 1.

    Bad: per-axis scales on axis 1 of the weight.

    Good: a ConvTranspose in float.
    """

    code = "QL310"
    name = "placement.conv-transpose"
    affects = impacts(tensorrt=FALLBACK)
    remedy = "leave ConvTranspose in float; for TensorRT use one scale for the weight"
    offers = (FLOAT_LAYER,)
    VALID = examples("""
        in float:
            agraph (float[1,1,2,2] x) => (float[1,1,2,2] y) <float[1,1,1,1] w = {0.5}> {
                y = ConvTranspose (x, w)
            }
    """)
    INVALID = examples("""
        scales on axis 1:
            agraph (float[1,2,2,2] x) => (float[1,2,2,2] y)
            <float s = {0.1}, int8 z = {0}, int8[2,2,1,1] w = {1,2,3,4}, float[2] ws = {0.1, 0.2}, int8[2] wz = {0,0}> {
                $PAIR_TO_XD
                wd = DequantizeLinear <axis = 1> (w, ws, wz)
                [c] y = ConvTranspose (xd, wd)
            }
        one scale, which TensorRT for RTX computes in float as well [tensorrt-rtx]:
            agraph (float[1,2,2,2] x) => (float[1,2,2,2] y)
            <float s = {0.1}, int8 z = {0}, int8[2,2,1,1] w = {1,2,3,4}, float ws = {0.1}, int8 wz = {0}> {
                $PAIR_TO_XD
                wd = DequantizeLinear (w, ws, wz)
                [c] y = ConvTranspose (xd, wd)
            }
    """)

    def check(self, context: RuleContext, target: Target) -> Faults:
        """Look for ConvTranspose with both operands quantized (rule QL302 reports one quantized operand)."""
        for product in context.products:
            node, right = product.node, product.right
            if not node.is_op("ConvTranspose") or product.left is None or right is None:
                continue
            per_axis = isinstance(right.dequantize.granularity, PerAxis)
            if per_axis or target.id == "tensorrt-rtx":
                granularity, fix = str(right.dequantize.granularity), float_layer(product)
                message = f"this ConvTranspose is quantized (weight: {granularity})"
                expected = "float" if target.id == "tensorrt-rtx" else "float, or a per-tensor weight"
                weight = node.input(product.weight_index)
                yield Fault(message, node, weight, found=granularity, expected=expected, fixes=(fix,))
