"""QT420: operators of ONNX Runtime's own domain that TensorRT does not build."""

from qdqtool.linting.rules.q_operator import is_compiled
from qdqtool.linting.rules.support.rule import REFUSED, Fault, Faults, Rule, examples, impacts
from qdqtool.linting.rules.support.rule_context import RuleContext
from qdqtool.models.graph.index.qdq import is_qdq
from qdqtool.models.graph.index.signature import CONTRIB
from qdqtool.models.targets import Target

NEED_PLUGINS = frozenset({"CausalConvWithState", "GroupQueryAttention", "LinearAttention"})
KNOWN = frozenset(
    {
        *("GatherND", "Gelu", "GridSample", "MultiHeadAttention", "Pad", "Range", "RotaryEmbedding"),
        *("SkipSimplifiedLayerNormalization", "Trilu"),
    }
)
"""Operators whose names the parser of TensorRT for RTX 1.7.1 knows; it ignores the domain."""


class ContribOperator(Rule):
    """TensorRT builds every operator of com.microsoft in the model.

    Why it matters: ONNX Runtime's optimizers write operators that only ONNX Runtime has. TensorRT for RTX builds a few
    of them, such as MultiHeadAttention, needs plugins for others, and does not know the rest.

    Bad: com.microsoft.SkipLayerNormalization, BiasGelu, FusedMatMul, GroupQueryAttention.

    Good: Add and LayerNormalization; com.microsoft.MultiHeadAttention without bias, mask of padding and cache.
    """

    code = "QT420"
    name = "target.contrib-operator"
    affects = impacts(tensorrt=REFUSED)
    remedy = (
        "`qdqtool normalize MODEL -o OUT` writes most of them as operators of ONNX; or export the model without"
        " ONNX Runtime's optimizations"
    )
    cause = "operators that only ONNX Runtime has"
    VALID = examples("""
        RotaryEmbedding:
            <ir_version: 10, opset_import: ["": 21, "com.microsoft": 1]>
            agraph (float[1,2,3,4] x, int64[1,3] p, float[8,2] c, float[8,2] s) => (float[1,2,3,4] y) {
                y = com.microsoft.RotaryEmbedding (x, p, c, s)
            }
    """)
    INVALID = examples("""
        an operator that TensorRT does not know:
            <ir_version: 10, opset_import: ["": 21, "com.microsoft": 1]>
            agraph (float[1,4] x) => (float[1,4] y) {
                y = com.microsoft.QuickGelu (x)
            }
        an operator that needs a plugin:
            <ir_version: 10, opset_import: ["": 21, "com.microsoft": 1]>
            agraph (float[1,2,16] q, float[1,2,16] k, float[1,2,16] v) => (float[1,2,16] y)
            <int32[1] l = {1}, int32 t = {2}> {
                y = com.microsoft.GroupQueryAttention <num_heads = 2, kv_num_heads = 2> (q, k, v, , , l, t)
            }
    """)

    def check(self, context: RuleContext, target: Target) -> Faults:
        """Find these operators by name, unless a local function defines them."""
        for node in context.nodes:
            is_other = node.domain == CONTRIB and not is_compiled(node) and not is_qdq(node)
            if not is_other or node.op_type in KNOWN or context.called(node) is not None or context.is_plugin(node):
                continue
            full = f"{node.domain}.{node.op_type}"
            problem = "needs a plugin in" if node.op_type in NEED_PLUGINS else "is unknown to"
            yield Fault(f"operator {full} {problem} {target.title}", node, found=full, expected="operators of ONNX")
