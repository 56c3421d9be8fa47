"""Operators that write values at given indices."""

from qdqtool.models.ops._traits import Traits

TRAITS = {
    "OneHot": Traits(index_inputs=(0, 1)),
    "ScatterElements": Traits(index_inputs=(1,)),
    "ScatterND": Traits(index_inputs=(1,)),
}
