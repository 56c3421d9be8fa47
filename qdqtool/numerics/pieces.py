"""Iterate over arrays and their scales in cache-sized pieces, without expanding the scales in memory."""

import itertools
import math
from collections.abc import Iterator, Sequence
from types import EllipsisType

import numpy as np

from qdqtool.numerics.dtypes import Array
from qdqtool.numerics.granularity import Blocked, Granularity, PerAxis, PerTensor, check_scale_shape, normalize_axis

PIECE = 1 << 15
"""Elements of a piece: its float32 temporaries stay in the second-level cache of one core."""

Index = tuple[int | slice | EllipsisType, ...]


def pieces(
    arrays: Sequence[Array], parameters: Sequence[Array | None], granularity: Granularity
) -> Iterator[tuple[list[Array], list[Array | None]]]:
    """Yield views of ``arrays`` with the matching views of ``parameters``, of equal shapes.

    Args:
        arrays: Arrays of one shape; what is written into a yielded view lands in them (give C-contiguous outputs).
        parameters: Scales and zero points of the shape that ``granularity`` asks for; None is passed through.
        granularity: Over which elements a parameter is shared.

    Yields:
        The pieces; together they cover every element once.

    Raises:
        ArgumentError: The shape of a parameter does not fit.
    """
    shape = arrays[0].shape
    for parameter in parameters:
        if parameter is not None:
            check_scale_shape(parameter.shape, shape, granularity)
    for whole, part in _aligned(shape, granularity):
        views = [whole(array) for array in arrays]
        spread = [None if p is None else np.broadcast_to(part(p), views[0].shape) for p in parameters]
        for index in _chunks(views[0].shape):
            yield [view[index] for view in views], [None if p is None else p[index] for p in spread]


def _aligned(shape: tuple[int, ...], granularity: Granularity) -> Iterator[tuple["_View", "_View"]]:
    """Yield views of an array and of a parameter that broadcast against each other; two for a short last block."""
    match granularity:
        case PerTensor():
            yield _View(), _View(())
        case PerAxis(axis):
            axis = normalize_axis(axis, len(shape))
            yield _View(), _View((-1, *[1] * (len(shape) - axis - 1)))
        case Blocked(axis, size):
            axis = normalize_axis(axis, len(shape))
            before, length, after = shape[:axis], shape[axis], shape[axis + 1 :]
            full, rest = divmod(length, size)
            lead = (slice(None),) * axis
            if full or not rest:
                yield (
                    _View((*before, full, size, *after), (*lead, slice(0, full * size))),
                    _View((*before, full, 1, *after), (*lead, slice(0, full))),
                )
            if rest:
                yield _View(None, (*lead, slice(full * size, length))), _View(None, (*lead, slice(full, full + 1)))


class _View:
    """A slice and then a reshape, neither of which copies."""

    def __init__(self, shape: tuple[int, ...] | None = None, index: Index | None = None) -> None:
        self.shape = shape
        self.index = index

    def __call__(self, array: Array) -> Array:
        part = array if self.index is None else array[self.index]
        return part if self.shape is None else part.reshape(self.shape)


def _chunks(shape: tuple[int, ...]) -> Iterator[Index]:
    """Yield indices that cut an array of ``shape`` into runs of about :data:`PIECE` elements along its first axes."""
    if math.prod(shape) <= PIECE:
        yield (...,)
        return
    axis = next(axis for axis in range(len(shape)) if math.prod(shape[axis + 1 :]) <= PIECE)
    step = max(1, PIECE // math.prod(shape[axis + 1 :]))
    for lead in itertools.product(*map(range, shape[:axis])):
        for start in range(0, shape[axis], step):
            yield (*lead, slice(start, start + step), ...)
