"""Reduce the elements that share a scale to one value, and find scales of values that are already on a grid."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from qdqtool.numerics import kernels
from qdqtool.numerics.affine import fake_quantize
from qdqtool.numerics.cores import on_all_cores
from qdqtool.numerics.dtypes import FLOAT16, FLOAT32, FLOAT64, Array
from qdqtool.numerics.granularity import Blocked, Granularity, PerAxis, PerTensor, normalize_axis
from qdqtool.numerics.number_format import NumberFormat


@dataclass(frozen=True, slots=True)
class BlockLayout:
    """The blocks of a tensor, called groups, in the order of the flattened scales.

    Attributes:
        length: Extent of the blocked axis.
        inner: Number of elements from one index of the blocked axis to the next.
        block: Elements in a group; the last group of an axis may have fewer.
        groups: Number of groups.
    """

    length: int
    inner: int
    block: int
    groups: int

    @classmethod
    def of(cls, shape: tuple[int, ...], granularity: Blocked) -> "BlockLayout":
        """Return the groups of a tensor of ``shape``."""
        axis = normalize_axis(granularity.axis, len(shape))
        inner = int(np.prod(shape[axis + 1 :], dtype=np.int64))
        groups = int(np.prod(granularity.scale_shape(shape), dtype=np.int64))
        return cls(shape[axis], inner, granularity.block_size, groups)

    @property
    def per_axis(self) -> int:
        """Number of groups along the blocked axis."""
        return -(-self.length // self.block)

    @property
    def place(self) -> tuple[int, int, int, int]:
        """The arguments of the kernels: length, inner, block, and number of groups along the axis."""
        return self.length, self.inner, self.block, self.per_axis

    def gather(self, values: Array, part: slice) -> Array:
        """Return groups as columns, float32 ``[elements of a group, groups]``; zeros fill a short last group.

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
        """Do ``work`` on all cores, on ``size`` groups per call."""
        on_all_cores(work, [slice(start, min(start + size, self.groups)) for start in range(0, self.groups, size)])


def reduce_groups(x: Array, granularity: Granularity, reduction: "np.ufunc", *, empty: float = 0.0) -> Array:
    """Reduce each group of ``x`` to one value.

    Args:
        x: Values of any shape.
        granularity: How elements are grouped; the last block of an axis may be shorter.
        reduction: ``np.maximum``, ``np.minimum``, ``np.add``, ...
        empty: The value of a group without elements.

    Returns:
        An array of ``x``'s type in the shape of the scale.
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
        granularity: Which elements form a group.
    """
    if x.size and kernels.wanted(x) and kernels.has_ranges(x.shape, granularity):
        return kernels.ranges(x, granularity)
    values = x.astype(np.float32, copy=False)
    finite = np.isfinite(values)
    if not finite.all():
        values = np.where(finite, values, np.float32(0))
    return reduce_groups(values, granularity, np.minimum), reduce_groups(values, granularity, np.maximum)


def scale_on_grid(x: Array, fmt: NumberFormat, granularity: Granularity, *, tolerance: float = 0.0) -> Array | None:
    """Return scales with which quantizing and dequantizing does not change any value, or None if there are none.

    The largest magnitude of each group, or of the tensor, is assumed to have the largest or the lowest code. If this is
    true for some groups, the other groups may use only half of the codes: the tensor may have been quantized with one
    scale and then multiplied by one factor per channel.

    Args:
        x: float32, float16 or bfloat16.
        fmt: Format of the codes, without a zero point.
        granularity: Which elements share a scale.
        tolerance: Largest relative change of a value. With 0, all bits must be equal, except the sign of zeros.

    Returns:
        Scales in the type of ``x`` and the shape that ``granularity`` requires, or None if a group is not on a grid.
    """
    search = _GridSearch(x, fmt, granularity, tolerance)
    if search.take(_likely(search.peaks, fmt)) and fmt.kind == "integer":
        search.take(search.peaks / code for code in range(int(fmt.high) - 1, int(fmt.high) // 2, -1))
    return None if search.missing.any() else search.scale


def _likely(peaks: Array, fmt: NumberFormat) -> Iterator[Array]:
    """Yield scales with which the largest magnitude of a group, or of the tensor, gets the first or last code."""
    for peak in (peaks, np.full_like(peaks, peaks.max(initial=0.0))):
        for code in dict.fromkeys((fmt.high, abs(fmt.low))):
            yield peak / code


class _GridSearch:
    """A search for the scale of each group.

    Attributes:
        peaks: The largest magnitude of each group, float64.
        scale: The scales found so far; 1 for groups of zeros.
        missing: Whether the scale of a group is not found yet.
    """

    def __init__(self, x: Array, fmt: NumberFormat, granularity: Granularity, tolerance: float) -> None:
        self._x, self._fmt, self._granularity, self._tolerance = x, fmt, granularity, tolerance
        low, high = ranges(x, granularity)
        self.peaks = np.maximum(np.abs(low), np.abs(high)).astype(FLOAT64)
        self.scale: Array = np.ones(self.peaks.shape, x.dtype)
        self.missing: npt.NDArray[np.bool_] = self.peaks > 0

    def take(self, scales: Iterator[Array]) -> bool:
        """Try scales for the groups without a scale; return whether a scale was found for any group."""
        before = int(self.missing.sum())
        for given in scales:
            for scale in self._neighbors(given):
                if self.missing.any():
                    self._try(scale)
        return int(self.missing.sum()) < before

    def _neighbors(self, given: Array) -> Iterator[Array]:
        """Yield a scale and, if all bits must be equal, the next floats, because the values were rounded."""
        dtype = self._x.dtype
        scale = np.where(given > 0, given, 1.0).astype(dtype)
        yield scale
        if not self._tolerance and dtype in {FLOAT32, FLOAT16}:
            yield np.nextafter(scale, dtype.type(0))
            yield np.nextafter(scale, dtype.type(np.inf))

    def _try(self, given: Array) -> None:
        scale = np.where(self.missing, given, self.scale).astype(self._x.dtype)
        made = fake_quantize(self._x, scale, self._fmt, self._granularity)
        wide = self._x.astype(FLOAT64)
        near = np.abs(made.astype(FLOAT64) - wide) <= self._tolerance * np.abs(wide)
        fits = self.missing & reduce_groups(near, self._granularity, np.logical_and)
        self.scale = np.where(fits, scale, self.scale).astype(self._x.dtype)
        self.missing = self.missing & ~fits
