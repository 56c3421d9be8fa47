"""Resize, and its predecessor Upsample."""

from collections.abc import Sequence

from qdqtool.models.graph.index.view import NodeView
from qdqtool.models.ops._span import Arrays, Span, same_span
from qdqtool.models.ops._traits import Traits


def _is_nearest(node: NodeView) -> bool:
    """Return whether a Resize only repeats and drops values."""
    return bool(node.attribute("mode", b"nearest") == b"nearest")


def _resized(node: NodeView, spans: Sequence[Span | None], arrays: Arrays) -> Span | None:
    """Return the span after interpolation or extrapolation; cubic interpolation overshoots."""
    span = spans[0]
    if span is None:
        return None
    if node.attribute("coordinate_transformation_mode") == b"tf_crop_and_resize":
        span = span.including(float(node.attribute("extrapolation_value", 0.0)))
    if node.attribute("mode") == b"cubic":
        # For a coefficient of -0.75, the weights of one axis sum to at most 1.4 in magnitude; images have two axes.
        return Span(-2 * span.most, 2 * span.most, source=span.source)
    return span


TRAITS = {
    "Resize": Traits(
        span=_resized,
        moves_values_if=_is_nearest,
        keeps_channels=True,
        index_inputs=(1, 2, 3),
        lacks_uint8=True,
        float32_inputs=frozenset({1, 2}),
    ),
    "Upsample": Traits(span=same_span, keeps_channels=True, float32_inputs=frozenset({1})),
}
