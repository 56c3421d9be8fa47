"""Deformable convolution, which stays float."""

from qdqtool.ops._op import QuantizableOp


class _DeformConv(QuantizableOp):
    """It gathers its inputs from places that another input gives; TensorRT has it as a plugin, in float."""

    op_types = ("DeformConv",)
    stays_float = "TensorRT knows it as a float plugin only"


OP = _DeformConv()
