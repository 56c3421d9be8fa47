"""Weighted operators of ONNX Runtime's own domain, which stay unquantized."""

from qdqtool.models.ops._product import QuantizableOp


class _Microsoft(QuantizableOp):
    """Operators that ONNX Runtime's optimizers write instead of standard operators; TensorRT knows none of them."""

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
        "it is an operator of ONNX Runtime that no other engine knows; export the model without ONNX Runtime's"
        " own optimizations to quantize the standard operators in its place"
    )


OP = _Microsoft()
