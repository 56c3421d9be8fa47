"""Element-wise arithmetic and comparison of several tensors."""

from collections.abc import Sequence

import numpy as np

from qdqtool.models.graph.index.view import NodeView
from qdqtool.models.ops._span import Arrays, Span, constant_span, multiplied, of_known, summed_span, union
from qdqtool.models.ops._traits import CodePath, Traits


def _difference(left: Span, right: Span) -> Span:
    return summed_span(left, right.times(-1))


def _quotient(node: NodeView, spans: Sequence[Span | None], arrays: Arrays) -> Span | None:
    """Return the span of a quotient, or None if the divisor is not constant or its signs differ."""
    divisor = arrays(1)
    inverse = constant_span(1 / divisor.astype(np.float64)) if divisor is not None and np.all(divisor) else None
    return multiplied(spans[0], inverse) if spans[0] is not None and inverse is not None else None


TRAITS = {
    "Div": Traits(
        span=_quotient, keeps_sign_of_all=True, keeps_channels=True, computes_indices=True, codes=CodePath.SCALED
    ),
    "Equal": Traits(computes_indices=True),
    "Greater": Traits(computes_indices=True),
    "Less": Traits(computes_indices=True),
    "Max": Traits(span=union, keeps_sign_of_all=True, computes_indices=True, codes=CodePath.JOINED),
    "Min": Traits(span=union, keeps_sign_of_all=True, computes_indices=True, codes=CodePath.JOINED),
    "Mul": Traits(
        span=of_known(multiplied),
        keeps_sign_of_all=True,
        keeps_channels=True,
        computes_indices=True,
        codes=CodePath.SCALED,
    ),
    "Sub": Traits(span=of_known(_difference), keeps_channels=True, computes_indices=True),
}
