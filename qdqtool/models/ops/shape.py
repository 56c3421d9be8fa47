"""Operators that read shapes or have shapes as inputs."""

from qdqtool.models.ops._traits import Traits

TRAITS = {
    "ConstantOfShape": Traits(index_inputs=(0,)),
    "Range": Traits(index_inputs=(0, 1, 2)),
    "Shape": Traits(keeps_order_only=True),
    "Size": Traits(keeps_order_only=True),
}
