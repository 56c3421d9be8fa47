"""QL317: activations of a Conv with one scale of shape [1]."""

from qdqtool.linting.rules.fixes.scales import SCALAR, scalar_fixes
from qdqtool.linting.rules.support.rule import FALLBACK, Example, Fault, Faults, Rule, impacts
from qdqtool.linting.rules.support.rule_context import RuleContext
from qdqtool.models.targets import Target

MODEL = """
            agraph (float[1,2,4,4] x) => (float[1,2,4,4] y)
            <float%s s = {0.1}, int8 z = {0}, int8[2,2,1,1] w = {1,2,3,4}, float ws = {0.1}> {
                q = QuantizeLinear (x, s, z)
                xd = DequantizeLinear (q, s, z)
                wd = DequantizeLinear (w, ws, z)
                y = Conv (xd, wd)
            }
            """


class OneElementScale(Rule):
    """If an activation of a Conv has one scale, the scale is a scalar.

    Why it matters: a scale of shape [1] means the same as a scalar. But when TensorRT for RTX chooses the kernel of a
    Conv, it treats the scale as a list. Then the activation is quantized and dequantized again, and the Conv runs in
    float. Neither the parser nor the builder reports this. PyTorch writes such scales when it exports
    quantization-aware training.

    Bad: a DQ with a scale of shape [1] in front of a Conv.

    Good: the same with a scalar. For Gemm, MatMul and weights, shape [1] is fine.
    """

    code = "QL317"
    name = "layer.one-element-scale"
    affects = impacts(tensorrt_rtx=FALLBACK)
    remedy = "make the scale a scalar: shape [] in place of [1]"
    offers = (SCALAR,)
    VALID = (Example("a scalar", MODEL % ""),)
    INVALID = (Example("a scale of shape [1]", MODEL % "[1]"),)

    def check(self, context: RuleContext, target: Target) -> Faults:
        """Look at the DQ that makes the data of each Conv; report each DQ once."""
        found = {
            product.left.dequantize: product.node
            for product in context.products
            if product.left is not None and product.node.is_op("Conv")
        }
        for entry, reader in found.items():
            if entry.scale_shape == (1,) and not context.qdq.is_weight(entry):
                message = f"the scale of this DQ has shape [1], and Conv '{reader.label}' runs in float"
                fixes = scalar_fixes(entry)
                yield Fault(message, entry.node, entry.scale, found="shape [1]", expected="a scalar", fixes=fixes)
