"""Resize, and its predecessor Upsample."""

from qdqtool.graph.index.view import NodeView
from qdqtool.ops._traits import Traits


def _is_nearest(node: NodeView) -> bool:
    """Return whether a Resize only repeats and drops values."""
    return bool(node.attribute("mode", b"nearest") == b"nearest")


TRAITS = {
    "Resize": Traits(
        moves_values_if=_is_nearest,
        keeps_channels=True,
        index_inputs=(1, 2, 3),
        lacks_uint8=True,
        float32_inputs=frozenset({1, 2}),
    ),
    "Upsample": Traits(keeps_channels=True, float32_inputs=frozenset({1})),
}
