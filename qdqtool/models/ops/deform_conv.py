"""Deformable convolution, which stays float."""

from qdqtool.models.ops._product import QuantizableOp
from qdqtool.models.ops._traits import Traits


class _DeformConv(QuantizableOp):
    """DeformConv, which gathers its inputs from places of another input; TensorRT has a float plugin for it."""

    op_types = ("DeformConv",)
    stays_float = "TensorRT knows it as a float plugin only"


TRAITS = {"DeformConv": Traits(is_layer=True, multiplies_inside=True)}
OP = _DeformConv()
