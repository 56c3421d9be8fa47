"""QL317: activations of a Conv whose one scale has a dimension."""

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
    """The one scale of an activation that a Conv reads is a scalar.

    Why it matters: a scale of shape [1] means the same as a scalar. But TensorRT for RTX takes it for a list of
    scales where it chooses the kernel of a Conv: it quantizes the activation, dequantizes it again and multiplies
    floats. Neither its parser nor its builder reports it. Exports of quantization-aware training in PyTorch have such
    scales.

    Bad: a DQ with a scale of shape [1] in front of a Conv.

    Good: the same with a scalar. Gemm, MatMul and weights do not mind.
    """

    code = "QL317"
    name = "layer.one-element-scale"
    affects = impacts(tensorrt_rtx=FALLBACK)
    remedy = "make the scale a scalar: shape [] in place of [1]"
    offers = (SCALAR,)
    VALID = (Example("a scalar", MODEL % ""),)
    INVALID = (Example("a scale of shape [1]", MODEL % "[1]"),)

    def check(self, context: RuleContext, target: Target) -> Faults:
        """Look at the DQ behind the data of every Conv; each is reported once."""
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
