"""Operators that replace some values by 0 or by others."""

from qdqtool.ops._traits import Traits

TRAITS = {
    "Trilu": Traits(keeps_magnitude=True, carries_infinity=True),
    "Where": Traits(index_inputs=(0,)),
}
