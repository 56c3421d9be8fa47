"""Divide a tensor with block scales into numbered groups, of which a few can be processed at a time."""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from qdqtool.numerics.cores import on_all_cores
from qdqtool.numerics.dtypes import FLOAT32, Array
from qdqtool.numerics.granularity import Blocked, normalize_axis


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
