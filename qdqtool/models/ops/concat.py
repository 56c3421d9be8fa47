"""Concat: it moves values, but codes can only be joined if all inputs have equal scales."""

from collections.abc import Sequence
from dataclasses import replace

from qdqtool.models.graph.index.view import NodeView
from qdqtool.models.ops._product import ChannelLayout, QuantizableOp
from qdqtool.models.ops._span import Arrays, Span, union
from qdqtool.models.ops._traits import CodePath, Traits


class _Concat(QuantizableOp):
    """Concat, whose inputs need a common scale.

    It needs no pairs of its own: TensorRT moves the Q after it to each input, and joins codes. If the user names it,
    all pairs on its output and inputs get the same scale.
    """

    op_types = ("Concat",)
    stays_float = "it only joins tensors: where its consumer is quantized, the consumer's pair follows it"
    on_request = True

    def quantized_inputs(self, node: NodeView) -> tuple[int, ...]:
        """Return every input."""
        return tuple(range(len(node.proto.input)))


def _concatenated(node: NodeView, spans: Sequence[Span | None], arrays: Arrays) -> Span | None:
    """Return the span of joined tensors. If they are joined along the channels, each channel comes from one of them."""
    whole = union(node, spans, arrays)
    axis = next((layout for layout in ChannelLayout if layout.axis == node.attribute("axis")), None)
    known = [span.on(axis) for span in spans if span is not None]
    return (
        whole if whole is None or axis is None else replace(whole, width=max(span.width for span in known), axis=axis)
    )


TRAITS = {
    "Concat": Traits(
        span=_concatenated, keeps_sign_of_all=True, computes_indices=True, codes=CodePath.JOINED, lacks_uint8=True
    )
}
OP = _Concat()
