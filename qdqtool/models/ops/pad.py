"""Pad."""

from collections.abc import Sequence

import numpy as np

from qdqtool.models.graph.index.model_index import ModelIndex
from qdqtool.models.graph.index.view import NodeView
from qdqtool.models.ops._product import ChannelLayout
from qdqtool.models.ops._span import Arrays, Span
from qdqtool.models.ops._traits import CodePath, Traits, stored_integers


def _with_zeros(node: NodeView, layout: ChannelLayout, index: ModelIndex) -> ChannelLayout | None:
    """Return the same layout if the node pads with zeros and adds no channels."""
    constants = index.constants
    pads = node.attribute("pads") or stored_integers(node.input(1), constants)
    if pads is None or layout is not ChannelLayout.FIRST or node.input_name(3):
        return None
    fill = node.input(2)
    filled = constants.array(fill) if fill is not None else np.float32(node.attribute("value", 0.0))
    zero = filled is not None and not np.any(filled)
    rank = len(pads) // 2
    return layout if zero and rank > 2 and not (pads[1] or pads[rank + 1]) else None


def _padded(node: NodeView, spans: Sequence[Span | None], arrays: Arrays) -> Span | None:
    """Return the span, including the padding value; modes other than ``constant`` repeat values."""
    span = spans[0]
    if span is None or node.attribute("mode", b"constant") != b"constant":
        return span
    filled = arrays(2) if node.input_name(2) else np.float32(node.attribute("value", 0.0))
    return span.including(float(np.asarray(filled, np.float64).item())) if filled is not None else None


TRAITS = {
    "Pad": Traits(
        span=_padded,
        keeps_channels=True,
        factor_rule=_with_zeros,
        index_inputs=(1,),
        codes=CodePath.PADDED,
        lacks_uint8=True,
    )
}
