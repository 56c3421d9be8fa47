"""Add, quantized where it joins a residual branch."""

from collections.abc import Sequence

from qdqtool.models.graph.index.view import NodeView
from qdqtool.models.ops._product import QuantizableOp
from qdqtool.models.ops._span import Arrays, Span, summed_span
from qdqtool.models.ops._traits import Traits


class _Add(QuantizableOp):
    """Add. One input takes a pair, which depends on the graph: the skip branch, not the branch from a Conv."""

    op_types = ("Add",)
    activation_inputs = (0, 1)


def _sum(node: NodeView, spans: Sequence[Span | None], arrays: Arrays) -> Span | None:
    left, right = spans
    return summed_span(left, right) if left is not None and right is not None else None


TRAITS = {
    "Add": Traits(span=_sum, keeps_sign_of_all=True, keeps_channels=True, computes_indices=True, lacks_uint8=True)
}
OP = _Add()
