"""Deformable convolution, which stays unquantized."""

from qdqtool.models.ops._product import QuantizableOp
from qdqtool.models.ops._traits import Traits


class _DeformConv(QuantizableOp):
    """DeformConv, which reads its input at positions that another input gives; TensorRT has a float plugin for it."""

    op_types = ("DeformConv",)
    stays_float = "TensorRT has only a float plugin for it"


TRAITS = {"DeformConv": Traits(is_layer=True, multiplies_inside=True)}
OP = _DeformConv()
