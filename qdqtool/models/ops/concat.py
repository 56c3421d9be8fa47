"""Concat: it moves values, but only inputs with equal scales can be joined as codes."""

from collections.abc import Sequence
from dataclasses import replace

from qdqtool.models.graph.index.view import NodeView
from qdqtool.models.ops._product import ChannelLayout, QuantizableOp
from qdqtool.models.ops._span import Arrays, Span, union
from qdqtool.models.ops._traits import CodePath, Traits


class _Concat(QuantizableOp):
    """Concat, whose inputs need one scale.

    It needs no pairs of its own: TensorRT moves the Q behind it onto each input, and joins codes. A user who names it
    gets one scale for the pair behind it and for the pairs that its inputs have for other readers.
    """

    op_types = ("Concat",)
    stays_float = "it only joins tensors: where its consumer is quantized, the consumer's pair follows it"
    on_request = True

    def quantized_inputs(self, node: NodeView) -> tuple[int, ...]:
        """Return every input."""
        return tuple(range(len(node.proto.input)))


def _concatenated(node: NodeView, spans: Sequence[Span | None], arrays: Arrays) -> Span | None:
    """Join tensors; joined along the channels, each channel has the values of one of them."""
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
