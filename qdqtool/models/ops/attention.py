"""Attention as one operator, which stays unquantized."""

from qdqtool.models.ops._product import QuantizableOp
from qdqtool.models.ops._traits import Traits


class _Attention(QuantizableOp):
    """The Attention operator of ONNX.

    Its Softmax is inside, where no pair can be placed. TensorRT for RTX runs pairs before it as separate kernels, and
    the attention itself in float16. The same attention written as MatMul, Softmax and MatMul runs in int8 or fp8.
    """

    op_types = ("Attention",)
    stays_float = (
        "TensorRT computes it in float, because no pair can be inserted at its inner Softmax; attention written as"
        " MatMul, Softmax, MatMul is quantized"
    )


TRAITS = {"Attention": Traits(is_layer=True, multiplies_inside=True)}
OP = _Attention()
