"""QL314: pairs in front of the Attention operator."""

from qdqtool.linting.rules.fixes.unquantize import FLOAT_TENSOR, float_tensor
from qdqtool.linting.rules.support.reach import Walk, operand
from qdqtool.linting.rules.support.rule import FALLBACK, Fault, Faults, Rule, examples, impacts
from qdqtool.linting.rules.support.rule_context import RuleContext
from qdqtool.models.targets import Target

ROLES = ("queries", "keys", "values")


class AttentionOperator(Rule):
    """No pair quantizes an input of the Attention operator.

    Why it matters: TensorRT for RTX computes the operator in one float16 or bfloat16 kernel. Pairs on its inputs run as
    separate kernels before it and only round: they cost time and accuracy and gain nothing.

    Bad: Q and DQ on the queries, keys and values of Attention.

    Good: Attention on float tensors. Or MatMul, Softmax, MatMul with fp8 pairs on all four inputs: one fp8 kernel.
    """

    code = "QL314"
    name = "placement.attention-operator"
    affects = impacts(tensorrt_rtx=FALLBACK)
    remedy = "remove the pairs, or write attention as MatMul, Softmax, MatMul"
    offers = (FLOAT_TENSOR,)
    VALID = examples("""
        float16 [tensorrt-rtx]:
            <ir_version: 11, opset_import: ["": 23]>
            agraph (float16[1,2,16,64] q, float16[1,2,16,64] k, float16[1,2,16,64] v) => (float16[1,2,16,64] y) {
                y = Attention (q, k, v)
            }
    """)
    INVALID = examples("""
        fp8 pairs (bits 11878 are 0.1):
            <ir_version: 11, opset_import: ["": 23]>
            agraph (float16[1,2,16,64] q, float16[1,2,16,64] k, float16[1,2,16,64] v) => (float16[1,2,16,64] y)
            <float16 s = {11878}, float8e4m3fn z = {0}> {
                qq = QuantizeLinear (q, s, z)
                qd = DequantizeLinear (qq, s, z)
                kq = QuantizeLinear (k, s, z)
                kd = DequantizeLinear (kq, s, z)
                vq = QuantizeLinear (v, s, z)
                vd = DequantizeLinear (vq, s, z)
                y = Attention (qd, kd, vd)
            }
    """)

    def check(self, context: RuleContext, target: Target) -> Faults:
        """Look for a DQ that makes one of the three inputs."""
        walk = Walk(context.index)
        for node in context.nodes:
            if not node.is_op("Attention"):
                continue
            for index, role in enumerate(ROLES):
                side = operand(walk, node.input(index))
                if side is not None:
                    message = f"the {role} of this Attention are quantized"
                    expected = "a float tensor"
                    fixes = () if side.between else (float_tensor(side.dequantize),)
                    yield Fault(message, node, node.input(index), found="a pair", expected=expected, fixes=fixes)
