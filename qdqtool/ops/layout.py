"""Operators that move the values of a tensor by place, or repeat or drop some.

Where a property that follows from moving values is set to False here, it holds all the same, but no code has relied on
it for this operator so far, and relying on it would change results. ``tests/ops/test_traits.py`` lists these.
"""

from dataclasses import replace

from qdqtool.graph.index.constants import Constants
from qdqtool.graph.index.view import NodeView
from qdqtool.ops._channels import ChannelLayout
from qdqtool.ops._factors import over_axes, stored_integers
from qdqtool.ops._traits import MOVING


def _flattened(node: NodeView, layout: ChannelLayout, constants: Constants) -> ChannelLayout | None:
    del constants
    joins = node.attribute("axis", 1) == 1 and layout is ChannelLayout.FIRST
    return ChannelLayout.LAST if joins else None


def _reshaped(node: NodeView, layout: ChannelLayout, constants: Constants) -> ChannelLayout | None:
    """Return the last axis for a Reshape that works like Flatten: ``[0, n]`` keeps the batch and joins the rest."""
    shape = stored_integers(node.input(1), constants)
    flat = shape is not None and len(shape) == 2 and shape[0] == 0 and not node.attribute("allowzero", 0)
    return ChannelLayout.LAST if flat and layout is ChannelLayout.FIRST else None


def _transposed(node: NodeView, axis: int, rank: int | None) -> int | None:
    """Return the axis of the attribute ``perm``, by default the axes in reverse order."""
    order = node.attribute("perm", None if rank is None else range(rank - 1, -1, -1))
    return order[axis] if isinstance(order, list | range) and axis < len(order) else None


TRAITS = {
    "DepthToSpace": replace(MOVING, carries_infinity=False, carries_indices=False),
    "Expand": replace(MOVING, keeps_sign=False, carries_indices=False, index_inputs=(1,), lacks_uint8=True),
    "Flatten": replace(
        MOVING, carries_infinity=False, flattens_channels=True, factor_rule=_flattened, lacks_uint8=True
    ),
    "Reshape": replace(MOVING, flattens_channels=True, factor_rule=_reshaped, index_inputs=(1,), lacks_uint8=True),
    "Slice": replace(MOVING, carries_indices=False, index_inputs=(1, 2, 3, 4), lacks_uint8=True),
    "SpaceToDepth": replace(MOVING, keeps_sign=False, carries_infinity=False, carries_indices=False),
    "Split": replace(MOVING, keeps_sign=False, carries_infinity=False, carries_indices=False, lacks_uint8=True),
    "Squeeze": replace(MOVING, keeps_channels=True, factor_rule=over_axes, lacks_uint8=True),
    "Tile": replace(MOVING, keeps_sign=False, carries_indices=False, index_inputs=(1,)),
    "Transpose": replace(MOVING, source_axis=_transposed, keeps_channels=True, lacks_uint8=True),
    "Unsqueeze": replace(MOVING, keeps_channels=True, lacks_uint8=True),
}
