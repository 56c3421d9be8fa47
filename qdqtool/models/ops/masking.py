"""Operators that replace some values by 0 or by values of another input."""

from collections.abc import Sequence

from qdqtool.models.graph.index.view import NodeView
from qdqtool.models.ops._span import Arrays, Span, union
from qdqtool.models.ops._traits import Traits


def _either(node: NodeView, spans: Sequence[Span | None], arrays: Arrays) -> Span | None:
    return union(node, spans[1:], arrays)


TRAITS = {
    "Trilu": Traits(keeps_magnitude=True, carries_infinity=True),
    "Where": Traits(span=_either, index_inputs=(0,)),
}
