"""Deformable convolution, which stays float."""

from qdqtool.ops._op import QuantizableOp
from qdqtool.ops._traits import Traits


class _DeformConv(QuantizableOp):
    """It gathers its inputs from places that another input gives; TensorRT has it as a plugin, in float."""

    op_types = ("DeformConv",)
    stays_float = "TensorRT knows it as a float plugin only"


TRAITS = {"DeformConv": Traits(is_layer=True)}
OP = _DeformConv()
