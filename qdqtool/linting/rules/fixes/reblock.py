"""Replace blocks that do not divide the axis by blocks that do: exactly if possible, else by quantizing again."""

import math

import numpy as np

from qdqtool.linting.rules.fixes.stored import stored, write_parameters
from qdqtool.linting.rules.support.blocks import Blocks
from qdqtool.linting.rules.support.fix import Draft, Fix, Offer, UnfitError
from qdqtool.linting.rules.support.rule_context import Array
from qdqtool.models.graph.index.qdq import QdqNode
from qdqtool.models.graph.index.view import Value
from qdqtool.numerics.derive import ScaleRule, scale_from_tensor
from qdqtool.numerics.granularity import Blocked
from qdqtool.numerics.scheme import QuantScheme

SIZED = Offer("safe", "writes the block_size that follows from the extents")
SPLIT = Offer("safe", "splits the blocks into smaller ones that divide the axis, with the same scales")
FITTED = Offer(
    "safe", "writes the one axis that the block scales divide, with the block_size that follows from the extents"
)
PER_AXIS = Offer("safe", "writes one block over a whole axis of a matrix as a scale for each index of the other axis")
REBLOCKED = Offer("unsafe", "quantizes the weight again in blocks that divide the axis")


def reblock_fixes(found: Blocks) -> tuple[Fix, ...]:
    """Return the fixes for block scales on another axis than the node names, or with a shorter last block."""
    # TensorRT refuses blocks on any axis but the last two.
    if len(found.blocked) != 1 or found.blocked[0] < len(found.shape) - 2:
        return ()
    (axis,) = found.blocked
    entry, extent, count = found.entry, found.shape[axis], found.scale[axis]
    low, high = found.legal_sizes
    if count == 1 and len(found.shape) == 2:
        return one_block_fixes(found)
    if entry.axis % len(found.shape) != axis:
        return _axis_fixes(found)
    if entry.block_size == 0 and not extent % count:
        return (SIZED.fix(f"writes block_size = {extent // count}", _size, entry, extent // count),)
    if not low <= entry.block_size <= high:
        return ()
    split, other = math.gcd(entry.block_size, extent), _divisor(extent, entry.block_size)
    exact = SPLIT.fix(f"splits blocks of {entry.block_size} into blocks of {split}", _split, found, split)
    again = REBLOCKED.fix(f"quantizes again in blocks of {other}", _again, entry, axis, other)
    return (exact, again) if split > 1 else (again,)


def _axis_fixes(found: Blocks) -> tuple[Fix, ...]:
    """Return the fix that writes the axis that the scales divide, if the scales fit only this axis."""
    (axis,) = found.blocked
    extent, count, size = found.shape[axis], found.scale[axis], found.entry.block_size
    low, high = found.legal_sizes
    if not low <= size <= high:
        if extent % count:
            return ()
        size = extent // count
    words = f"writes axis = {axis} and block_size = {size}: the scale fits no other axis"
    return (FITTED.fix(words, _fit, found.entry, axis, size),)


def one_block_fixes(found: Blocks) -> tuple[Fix, ...]:
    """Return the fix that writes one block over a whole axis of a matrix as per-axis scales."""
    (axis,) = found.blocked
    words = f"writes the one block as scales on axis {1 - axis}"
    return (PER_AXIS.fix(words, _per_axis, found.entry, axis),)


def _divisor(extent: int, size: int) -> int:
    """Return the largest divisor of ``extent`` from 2 to ``size``; the extent itself if there is none."""
    return next((each for each in range(min(size, extent), 1, -1) if not extent % each), extent)


def _fit(entry: QdqNode, axis: int, size: int, draft: Draft) -> None:
    draft.set_attribute(entry.node, "axis", axis)
    draft.set_attribute(entry.node, "block_size", size)


def _size(entry: QdqNode, size: int, draft: Draft) -> None:
    draft.set_attribute(entry.node, "block_size", size)


def _per_axis(entry: QdqNode, axis: int, draft: Draft) -> None:
    for index, value in ((1, entry.scale), (2, entry.zero_point)):
        if value is not None:
            draft.set_constant(entry.node, index, _spread(draft, value, axis, 1).reshape(-1))
    draft.set_attribute(entry.node, "axis", 1 - axis)
    draft.set_attribute(entry.node, "block_size", None)


def _split(found: Blocks, size: int, draft: Draft) -> None:
    entry, (axis,) = found.entry, found.blocked
    for index, value in ((1, entry.scale), (2, entry.zero_point)):
        if value is not None:
            array = _spread(draft, value, axis, entry.block_size // size)[_first(axis, found.shape[axis] // size)]
            draft.set_constant(entry.node, index, array)
    draft.set_attribute(entry.node, "block_size", size)


def _spread(draft: Draft, value: Value, axis: int, times: int) -> Array:
    array = draft.context.array(value)
    if array is None:
        raise UnfitError(f"'{value.name}' is not constant")
    return np.repeat(array, times, axis=axis)


def _first(axis: int, count: int) -> tuple[slice, ...]:
    return (*(slice(None) for _ in range(axis)), slice(count))


def _again(entry: QdqNode, axis: int, size: int, draft: Draft) -> None:
    constant = stored(draft.context, entry)
    scheme = QuantScheme(constant.format, Blocked(axis, size))
    params = scale_from_tensor(constant.reals(), scheme, ScaleRule(dtype=constant.parameters.scale.dtype))
    draft.set_input(entry.node, 0, constant.write_codes(draft, params))
    write_parameters(draft, entry, params)
    draft.set_attribute(entry.node, "block_size", size)
