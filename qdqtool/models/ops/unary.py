"""Element-wise mathematical functions."""

from qdqtool.models.ops._span import Span, of_known
from qdqtool.models.ops._traits import CodePath, Traits


def _absolute(span: Span) -> Span:
    return Span(0.0, span.most, span.width, span.axis, span.source)


TRAITS = {
    "Abs": Traits(span=of_known(_absolute), nonnegative=True, codes=CodePath.POINTWISE),
    "Ceil": Traits(computes_indices=True),
    "Exp": Traits(nonnegative=True, lacks_int8=True),
    "Floor": Traits(computes_indices=True, lacks_int8=True),
    "Log": Traits(lacks_int8=True),
    "Neg": Traits(span=of_known(lambda span: span.times(-1)), codes=CodePath.POINTWISE),
    "Pow": Traits(lacks_int8=True),
    "Round": Traits(computes_indices=True, lacks_int8=True),
    "Sin": Traits(bound=1.0, lacks_int8=True),
    "Sqrt": Traits(nonnegative=True, lacks_int8=True),
}
