"""Products among ONNX Runtime's own operators, which stay float."""

from qdqtool.models.ops._product import QuantizableOp


class _Microsoft(QuantizableOp):
    """Operators that the optimizers of ONNX Runtime write in place of standard ones; TensorRT knows none of them."""

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
