"""Weighted operators of ONNX Runtime's own domain, which stay unquantized.

``docs/developers/contrib_operators.md`` lists what TensorRT makes of them.
"""

from qdqtool.models.graph.index.view import NodeView
from qdqtool.models.ops._product import QuantizableOp

WRITTEN_AS_ONNX = frozenset(
    {
        "Attention",
        "BiasGelu",
        "EmbedLayerNormalization",
        "FastGelu",
        "FusedConv",
        "FusedGemm",
        "FusedMatMul",
        "GroupQueryAttention",
        "MultiHeadAttention",
        "QuickGelu",
        "SkipLayerNormalization",
        "TransposeMatMul",
    }
)
"""Operators that ``normalize`` writes as operators of ONNX where TensorRT does not build them."""
WRITTEN_HINT = "`qdqtool normalize MODEL -o OUT.onnx` writes it as operators of ONNX"


class _Microsoft(QuantizableOp):
    """Operators that ONNX Runtime's optimizers write instead of standard operators."""

    domain = "com.microsoft"
    op_types = (
        "Attention",
        "DecoderMaskedMultiHeadAttention",
        "FusedConv",
        "FusedGemm",
        "FusedMatMul",
        "GroupQueryAttention",
        "LongformerAttention",
        "MoE",
        "MultiHeadAttention",
        "NhwcFusedConv",
        "PackedAttention",
        "PackedMultiHeadAttention",
        "TransposeMatMul",
    )
    stays_float = (
        "it is an operator of ONNX Runtime that TensorRT does not build; `qdqtool normalize` writes most of these as"
        " operators of ONNX, which are quantized"
    )

    def of(self, node: NodeView) -> QuantizableOp:
        """Return the family of attention for the two operators that have no weights inside."""
        return _ATTENTION if node.op_type in {"GroupQueryAttention", "MultiHeadAttention"} else self


class _AttentionInside(QuantizableOp):
    """Attention on projected queries, keys and values, which TensorRT for RTX builds in many forms."""

    op_types = ()
    stays_float = "no pair can be inserted at its inner Softmax; the products around it are quantized"


_ATTENTION = _AttentionInside()
OP = _Microsoft()
