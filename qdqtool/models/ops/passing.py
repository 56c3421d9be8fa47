"""Operators that keep each value at its position, perhaps in another type."""

from dataclasses import replace

from qdqtool.models.graph.index.constants import Constants
from qdqtool.models.graph.index.model_index import ModelIndex
from qdqtool.models.graph.index.view import NodeView
from qdqtool.models.ops._product import ChannelLayout
from qdqtool.models.ops._traits import MOVING, CodePath, Traits, pointwise


def _in_inference(node: NodeView, layout: ChannelLayout, index: ModelIndex) -> ChannelLayout | None:
    return None if node.input_name(2) else layout


def _drops(node: NodeView, constants: Constants) -> bool:
    """Return whether a Dropout is known to be in training mode, where it drops values at random."""
    mode = node.input(2)
    training = constants.array(mode) if mode is not None and constants.is_constant(mode) else None
    return training is not None and bool(training.any())


def _same_axis(node: NodeView, axis: int, rank: int | None) -> int:
    return axis


TRAITS = {
    "Cast": Traits(
        passes_values=True, keeps_channels=True, computes_indices=True, carries_indices=True, codes=CodePath.POINTWISE
    ),
    "Dropout": Traits(
        passes_values=True,
        keeps_sign=True,
        keeps_magnitude=True,
        keeps_channels=True,
        factor_rule=_in_inference,
        random_if=_drops,
        codes=CodePath.POINTWISE,
    ),
    "Identity": replace(
        MOVING,
        passes_values=True,
        source_axis=_same_axis,
        keeps_channels=True,
        factor_rule=pointwise,
        codes=CodePath.POINTWISE,
        lacks_uint8=True,
        passes_casts=True,
    ),
}
