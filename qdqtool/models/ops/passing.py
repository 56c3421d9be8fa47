"""Operators that keep each value at its position, perhaps in another type."""

from dataclasses import replace

from qdqtool.models.graph.index.constants import Constants
from qdqtool.models.graph.index.view import NodeView
from qdqtool.models.ops._traits import MOVING, CodePath, Traits, pointwise


def _drops(node: NodeView, constants: Constants) -> bool:
    """Return whether a Dropout is known to be in training mode, where it drops values at random."""
    mode = node.input(2)
    training = constants.array(mode) if mode is not None and constants.is_constant(mode) else None
    return training is not None and bool(training.any())


TRAITS = {
    "Cast": Traits(
        passes_values=True, keeps_channels=True, computes_indices=True, carries_indices=True, codes=CodePath.POINTWISE
    ),
    "Dropout": Traits(
        passes_values=True,
        keeps_sign=True,
        keeps_magnitude=True,
        keeps_channels=True,
        factor_rule=lambda node, layout, _: None if node.input_name(2) else layout,
        random_if=_drops,
        codes=CodePath.POINTWISE,
    ),
    "Identity": replace(
        MOVING,
        passes_values=True,
        source_axis=lambda _node, axis, _rank: axis,
        keeps_channels=True,
        factor_rule=pointwise,
        codes=CodePath.POINTWISE,
        lacks_uint8=True,
        passes_casts=True,
    ),
}
