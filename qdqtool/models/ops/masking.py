"""Operators that replace some values by 0 or by values of another input."""

from qdqtool.models.ops._span import union
from qdqtool.models.ops._traits import Traits

TRAITS = {
    "Trilu": Traits(keeps_magnitude=True, carries_infinity=True),
    "Where": Traits(span=lambda node, spans, arrays: union(node, spans[1:], arrays), index_inputs=(0,)),
}
