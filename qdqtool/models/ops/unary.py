"""Mathematical functions of single values."""

from collections.abc import Sequence

from qdqtool.models.graph.index.view import NodeView
from qdqtool.models.ops._span import Arrays, Span
from qdqtool.models.ops._traits import CodePath, Traits


def _absolute(node: NodeView, spans: Sequence[Span | None], arrays: Arrays) -> Span | None:
    return Span(0.0, spans[0].most, spans[0].width, spans[0].axis, spans[0].source) if spans[0] is not None else None


def _negated(node: NodeView, spans: Sequence[Span | None], arrays: Arrays) -> Span | None:
    return spans[0].times(-1) if spans[0] is not None else None


TRAITS = {
    "Abs": Traits(span=_absolute, nonnegative=True, codes=CodePath.POINTWISE),
    "Ceil": Traits(computes_indices=True),
    "Exp": Traits(nonnegative=True, lacks_int8=True),
    "Floor": Traits(computes_indices=True, lacks_int8=True),
    "Log": Traits(lacks_int8=True),
    "Neg": Traits(span=_negated, codes=CodePath.POINTWISE),
    "Pow": Traits(lacks_int8=True),
    "Round": Traits(computes_indices=True, lacks_int8=True),
    "Sin": Traits(bound=1.0, lacks_int8=True),
    "Sqrt": Traits(nonnegative=True, lacks_int8=True),
}
