"""Reductions over the elements that share a scale."""

from typing import Any

import numpy as np

from qdqtool.numerics import kernels
from qdqtool.numerics.dtypes import Array
from qdqtool.numerics.granularity import Blocked, Granularity, PerAxis, PerTensor, normalize_axis


def reduce_groups(x: Array, granularity: Granularity, reduction: "np.ufunc", *, empty: float = 0.0) -> Array:
    """Reduce each group of ``x`` to one value.

    Args:
        x: Values of any shape.
        granularity: What a group is; the last block of an axis may be shorter.
        reduction: ``np.maximum``, ``np.minimum``, ``np.add``, ...
        empty: The value of a group without elements.

    Returns:
        An array of ``x``'s type and the shape that ``granularity`` gives a scale.

    Raises:
        ArgumentError: The axis is outside the rank.
    """
    if x.size == 0:
        return np.full(granularity.scale_shape(x.shape), empty, x.dtype)
    found: Any
    match granularity:
        case PerTensor():
            found = reduction.reduce(x, axis=None)
        case PerAxis(axis):
            kept = normalize_axis(axis, x.ndim)
            found = reduction.reduce(x, axis=tuple(a for a in range(x.ndim) if a != kept))
        case Blocked(axis, block_size):
            axis = normalize_axis(axis, x.ndim)
            found = reduction.reduceat(x, np.arange(0, x.shape[axis], block_size), axis=axis)
    return np.asarray(found)


def ranges(x: Array, granularity: Granularity) -> tuple[Array, Array]:
    """Find the smallest and largest finite value of each group, as float32; 0 for a group without finite values.

    Args:
        x: float32, float16 or bfloat16 values of any shape.
        granularity: What a group is.

    Raises:
        ArgumentError: The axis is outside the rank.
    """
    if x.size and kernels.wanted(x) and kernels.has_ranges(x.shape, granularity):
        return kernels.ranges(x, granularity)
    values = x.astype(np.float32, copy=False)
    finite = np.isfinite(values)
    if not finite.all():
        values = np.where(finite, values, np.float32(0))
    return reduce_groups(values, granularity, np.minimum), reduce_groups(values, granularity, np.maximum)
