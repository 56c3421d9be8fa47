"""Fit the scales of another tool for a constant to the pair that placement proposes."""

from collections.abc import Iterator

import numpy as np
import numpy.typing as npt

from qdqtool.models import targets
from qdqtool.models.graph.index.types import Shape
from qdqtool.models.targets import Target, refusals
from qdqtool.numerics.granularity import Blocked, Granularity, PerAxis
from qdqtool.numerics.scheme import QuantParams, QuantScheme
from qdqtool.quantization.planning import modes
from qdqtool.quantization.ranges.encodings import ConstantScales

Scales = npt.NDArray[np.float64]
Fitted = tuple[Granularity, Scales]
"""The granularity of scales, and the scales in the shape for it."""


class ScalesProblem(Exception):  # noqa: N818  a reason in words, never shown as an error
    """Scales of a file do not fit; the message says why, in words that follow the name of the tensor."""


def fit_scales(given: ConstantScales, shape: Shape | None, scheme: QuantScheme, target_id: str) -> Fitted:
    """Return the scales of a file in the form that a pair takes.

    They keep their values. Blocks of another size than proposed are used as they are if the target takes them,
    otherwise they are divided into blocks of the proposed size. One scale of a channel is given to each of its blocks.

    Args:
        given: The scales of the file.
        shape: The shape of the constant, as far as it is known.
        scheme: The scheme that placement proposes.
        target_id: Id of the target of the model.

    Raises:
        ScalesProblem: They do not fit.
    """
    if given.problem:
        raise ScalesProblem(given.problem)
    if given.format != scheme.format.name:
        mode = modes.with_weights(given.format)
        takes = f", which --quantize-mode {mode} takes" if mode not in (None, modes.DEFAULT) else ""
        raise ScalesProblem(f"has {given.format} codes in the file, {scheme.format} here{takes}")
    extents = tuple(extent for extent in shape or () if isinstance(extent, int))
    if shape is None or len(extents) < len(shape):
        raise ScalesProblem("has an unknown shape")
    match scheme.granularity:
        case Blocked() as blocked:
            return _first_taken(list(_blocked(given, extents, blocked)), extents, scheme, targets.get(target_id))
        case PerAxis(axis):
            return scheme.granularity, _by_channel(given, extents, axis)
        case _:
            return scheme.granularity, _single(given)


def _single(given: ConstantScales) -> Scales:
    if given.block_size is not None:
        raise ScalesProblem(f"has blocks of {given.block_size} in the file, one scale here")
    if given.values.size > 1:
        raise ScalesProblem(f"has {given.values.size} scales in the file, one here")
    return given.values.reshape(())


def _by_channel(given: ConstantScales, shape: tuple[int, ...], axis: int) -> Scales:
    if given.block_size is not None:
        raise ScalesProblem(f"has blocks of {given.block_size} in the file, one scale a channel here")
    if given.values.size == 1:
        return np.full(shape[axis], given.values.item())
    if given.values.size != shape[axis] or given.values.ndim != 1 or not _is_axis(given.axis, axis, len(shape)):
        where = "" if given.axis is None else f" on axis {given.axis}"
        raise ScalesProblem(f"has {given.values.size} scales{where} in the file, {shape[axis]} on axis {axis} here")
    return given.values


def _is_axis(named: int | None, axis: int, rank: int) -> bool:
    """Return whether the axis that a file names, if any, is ``axis``; AIMET may count it from the end."""
    return named in (None, axis, axis - rank)


def _blocked(given: ConstantScales, shape: tuple[int, ...], wanted: Blocked) -> Iterator[Fitted]:
    """Yield the forms of such scales in blocks, the best first."""
    axis, size = wanted.axis, given.block_size
    if size is None:
        yield wanted, _repeated(given, shape, wanted)
        return
    table = _table(given, shape, axis, size)
    if table.shape[axis] > 1:
        yield Blocked(axis, size), table
    if size % wanted.block_size == 0:
        yield wanted, np.repeat(table, size // wanted.block_size, axis=axis)


def _repeated(given: ConstantScales, shape: tuple[int, ...], wanted: Blocked) -> Scales:
    """Return one scale for each channel, or for all, repeated for every block."""
    whole = wanted.scale_shape(shape)
    if given.values.size == 1:
        return np.full(whole, given.values.item())
    if len(shape) != 2:
        raise ScalesProblem(f"has scales of channels in the file, and {len(shape)} dimensions")
    by_channel = _by_channel(given, shape, 1 - wanted.axis)
    return np.broadcast_to(np.expand_dims(by_channel, wanted.axis), whole)


def _table(given: ConstantScales, shape: tuple[int, ...], axis: int, size: int) -> Scales:
    """Return block scales with the rank of the tensor."""
    expected = Blocked(axis, size).scale_shape(shape)
    values = given.values
    if values.ndim == 1 and len(shape) == 2 and given.axis is None and values.size == np.prod(expected):
        # A flat list of block scales is ordered by output channel, then by block.
        table = values.reshape(shape[1 - axis], -1)
        return table.T if axis == 0 else table
    same = values.ndim == len(shape) and _is_axis(given.axis, axis, len(shape)) and values.shape[axis] == expected[axis]
    if not same or any(own not in (1, extent) for own, extent in zip(values.shape, expected, strict=True)):
        found, wanted = list(values.shape), list(expected)
        raise ScalesProblem(f"has block scales of shape {found} in the file, {wanted} on axis {axis} here")
    return np.broadcast_to(values, expected)


def _first_taken(ways: list[Fitted], shape: tuple[int, ...], scheme: QuantScheme, target: Target) -> Fitted:
    for granularity, scales in ways:
        params = QuantParams(QuantScheme(scheme.format, granularity), np.ones(scales.shape, np.float32))
        if next(refusals(target, params, "float32", shape), None) is None:
            return granularity, scales
    if not ways:
        raise ScalesProblem("has one block in the file, which computes in float")
    raise ScalesProblem(f"has {ways[0][0]} in the file, which {target.id} does not take")
