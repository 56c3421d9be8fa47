"""Operators that move the values of a tensor by position, repeat values or drop values.

Some traits are set to False here although they follow from moving values. No code has relied on them for the operator
so far, and relying on them would change results. ``tests/models/ops/test_traits.py`` lists them.
"""

import math
from dataclasses import replace

from qdqtool.models.graph.index.model_index import ModelIndex
from qdqtool.models.graph.index.types import static_shape
from qdqtool.models.graph.index.view import NodeView, Value
from qdqtool.models.ops._product import ChannelLayout
from qdqtool.models.ops._traits import MOVING, over_axes, shape_of, stored_integers


def _flattened(node: NodeView, layout: ChannelLayout, index: ModelIndex) -> ChannelLayout | None:
    joins = node.attribute("axis", 1) == 1 and layout is ChannelLayout.FIRST
    return ChannelLayout.LAST if joins else None


def _reshaped(node: NodeView, layout: ChannelLayout, index: ModelIndex) -> ChannelLayout | None:
    """Return the channel axis after a Reshape that keeps the batch and the order of the channels."""
    # It may join all axes after the batch, as Flatten does (such as ``[0, n]``), or change only the axes after the
    # channels (``[1, 96]`` to ``[1, 96, 1, 1]``).
    if layout is not ChannelLayout.FIRST:
        return None
    wanted = stored_integers(node.input(1), index.constants)
    if wanted is not None and len(wanted) == 2 and wanted[0] == 0 and not node.attribute("allowzero", 0):
        return ChannelLayout.LAST
    before, after = _behind_batch(node.input(0), index), _behind_batch(node.output(), index)
    # If both tensors have the same number of elements after the batch axis, the batch is the same.
    if not before or not after or math.prod(before) != math.prod(after) or not math.prod(before):
        return None
    if len(after) == 1:
        return ChannelLayout.LAST
    return layout if after[0] == before[0] else None


def _behind_batch(value: Value | None, index: ModelIndex) -> tuple[int, ...]:
    """Return the extents after the first axis; empty if they are unknown."""
    return static_shape((shape_of(value, index) or ())[1:]) or ()


def _transposed(node: NodeView, axis: int, rank: int | None) -> int | None:
    """Return the input axis that a Transpose moves to ``axis``; without ``perm`` the order of the axes is reversed."""
    order = node.attribute("perm", None if rank is None else range(rank - 1, -1, -1))
    return order[axis] if isinstance(order, list | range) and axis < len(order) else None


_VIEW = replace(MOVING, passes_casts=True)

TRAITS = {
    "DepthToSpace": replace(_VIEW, carries_infinity=False, carries_indices=False),
    "Expand": replace(_VIEW, keeps_sign=False, carries_indices=False, index_inputs=(1,), lacks_uint8=True),
    "Flatten": replace(_VIEW, carries_infinity=False, flattens_channels=True, factor_rule=_flattened, lacks_uint8=True),
    "Reshape": replace(_VIEW, flattens_channels=True, factor_rule=_reshaped, index_inputs=(1,), lacks_uint8=True),
    "Slice": replace(MOVING, carries_indices=False, index_inputs=(1, 2, 3, 4), lacks_uint8=True),
    "SpaceToDepth": replace(_VIEW, keeps_sign=False, carries_infinity=False, carries_indices=False),
    "Split": replace(MOVING, keeps_sign=False, carries_infinity=False, carries_indices=False, lacks_uint8=True),
    "Squeeze": replace(_VIEW, keeps_channels=True, factor_rule=over_axes, lacks_uint8=True),
    "Tile": replace(MOVING, keeps_sign=False, carries_indices=False, index_inputs=(1,)),
    "Transpose": replace(_VIEW, source_axis=_transposed, keeps_channels=True, lacks_uint8=True),
    "Unsqueeze": replace(_VIEW, keeps_channels=True, lacks_uint8=True),
}
