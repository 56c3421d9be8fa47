"""Reductions over the elements that share a scale."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from qdqtool.numerics import kernels
from qdqtool.numerics.cores import on_all_cores
from qdqtool.numerics.dtypes import FLOAT32, Array
from qdqtool.numerics.granularity import Blocked, Granularity, PerAxis, PerTensor, normalize_axis


@dataclass(frozen=True, slots=True)
class Blocks:
    """The groups of a tensor that share a scale, numbered as the elements of the scale in row-major order.

    Attributes:
        length: Extent of the blocked axis.
        inner: Elements of one step along it.
        block: Elements in a group; the last one of an axis may have fewer.
        groups: Number of groups.
    """

    length: int
    inner: int
    block: int
    groups: int

    @classmethod
    def of(cls, shape: tuple[int, ...], granularity: Blocked) -> "Blocks":
        """The groups of a tensor of that shape."""
        axis = normalize_axis(granularity.axis, len(shape))
        inner = int(np.prod(shape[axis + 1 :], dtype=np.int64))
        groups = int(np.prod(granularity.scale_shape(shape), dtype=np.int64))
        return cls(shape[axis], inner, granularity.block_size, groups)

    @property
    def per_axis(self) -> int:
        """Groups along the blocked axis."""
        return -(-self.length // self.block)

    @property
    def place(self) -> tuple[int, int, int, int]:
        """Length, inner, block and groups along the axis, as kernels take them."""
        return self.length, self.inner, self.block, self.per_axis

    def gather(self, values: Array, part: slice) -> Array:
        """Return some groups side by side: float32 ``[elements of a group, groups]``, zeros where the last is shorter.

        Args:
            values: The tensor, C-contiguous.
            part: The numbers of the groups.
        """
        number = np.arange(part.start, part.stop)
        outer, place = number // (self.per_axis * self.inner), number // self.inner % self.per_axis
        along = place * self.block + np.arange(self.block)[:, None]
        index = (outer * self.length + along) * self.inner + number % self.inner
        inside = along < self.length
        return np.where(inside, values.reshape(-1)[np.where(inside, index, 0)], 0).astype(FLOAT32)

    def on_chunks(self, size: int, work: Callable[[slice], None]) -> None:
        """Do ``work`` on ``size`` groups at a time, on all cores: NumPy and kernels release the interpreter lock."""
        on_all_cores(work, [slice(start, min(start + size, self.groups)) for start in range(0, self.groups, size)])


def reduce_groups(x: Array, granularity: Granularity, reduction: "np.ufunc", *, empty: float = 0.0) -> Array:
    """Reduce each group of ``x`` to one value.

    Args:
        x: Values of any shape.
        granularity: What a group is; the last block of an axis may be shorter.
        reduction: ``np.maximum``, ``np.minimum``, ``np.add``, ...
        empty: The value of a group without elements.

    Returns:
        An array of ``x``'s type and the shape that ``granularity`` gives a scale.
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
    """
    if x.size and kernels.wanted(x) and kernels.has_ranges(x.shape, granularity):
        return kernels.ranges(x, granularity)
    values = x.astype(np.float32, copy=False)
    finite = np.isfinite(values)
    if not finite.all():
        values = np.where(finite, values, np.float32(0))
    return reduce_groups(values, granularity, np.minimum), reduce_groups(values, granularity, np.maximum)
