"""Average pooling: it is linear but computes new values, so a pair cannot be moved through it unchanged."""

from collections.abc import Sequence

from qdqtool.models.graph.index.view import NodeView
from qdqtool.models.ops._product import QuantizableOp
from qdqtool.models.ops._span import Arrays, Span, same_span
from qdqtool.models.ops._traits import Traits, over_space


class _AveragePool(QuantizableOp):
    """Average pooling of one activation.

    NVIDIA's placement guide moves pairs through it. TensorRT for RTX does not: a pair in front of it is computed inside
    the kernel before, as a round trip through int8, and the pool still reads float.
    """

    op_types = ("AveragePool", "GlobalAveragePool")
    stays_float = "TensorRT for RTX averages in float, so that a pair in front would only round"
    on_request = True


def _averaged(node: NodeView, spans: Sequence[Span | None], arrays: Arrays) -> Span | None:
    """Average, maybe with zeros of the padding."""
    return spans[0].including(0) if spans[0] is not None else None


TRAITS = {
    "AveragePool": Traits(span=_averaged, keeps_sign=True, keeps_channels=True, factor_rule=over_space),
    "GlobalAveragePool": Traits(
        span=same_span, keeps_sign=True, keeps_channels=True, factor_rule=over_space, is_layer=True, lacks_int8=True
    ),
}
OP = _AveragePool()
