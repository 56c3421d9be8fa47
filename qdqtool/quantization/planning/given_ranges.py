"""Match the ranges of another tool with a model, by tensor name."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt

from qdqtool.errors import UsageError
from qdqtool.models import ops, targets
from qdqtool.models.graph.index.model_index import ModelIndex
from qdqtool.models.graph.index.types import Shape, static_shape
from qdqtool.models.graph.index.view import Value
from qdqtool.models.graph.model import Model
from qdqtool.models.targets import Target, refusals
from qdqtool.numerics.granularity import Blocked, Granularity, PerAxis
from qdqtool.numerics.scheme import QuantParams, QuantScheme
from qdqtool.quantization.planning import modes
from qdqtool.quantization.planning.existing_pairs import propose_for
from qdqtool.quantization.planning.placement import ProposedSlot
from qdqtool.quantization.planning.recipe import Recipe
from qdqtool.quantization.ranges.encodings import ConstantScales, Encodings, ReadEncodings, read_encodings
from qdqtool.quantization.ranges.types import UNSEEN, CalibrationRecord, Ranges, TensorKey
from qdqtool.quantization.report import GivenReport
from qdqtool.registry import suggestion

Scales = npt.NDArray[np.float64]
Fitted = tuple[Granularity, Scales]
"""The granularity of scales, and the scales in the shape for it."""


class ScalesProblem(Exception):  # noqa: N818  a reason in words, never shown as an error
    """Scales of a file do not fit; the message says why, as a continuation of the name of the tensor."""


def fit_scales(given: ConstantScales, shape: Shape | None, scheme: QuantScheme, target_id: str) -> Fitted:
    """Return the scales of a file in the form that a pair needs.

    Values of scales are kept. Blocks of another size than proposed are kept if the target accepts them; otherwise they
    are divided into blocks of the proposed size. A scale of a channel is repeated for each of its blocks.

    Args:
        given: The scales of the file.
        shape: The known shape of the constant; extents may be unknown.
        scheme: The scheme that placement proposes.
        target_id: Id of the target of the model.

    Raises:
        ScalesProblem: The scales do not fit.
    """
    if given.problem:
        raise ScalesProblem(given.problem)
    if given.format != scheme.format.name:
        mode = modes.with_weights(given.format)
        takes = f"; --quantize-mode {mode} uses such codes" if mode not in (None, modes.DEFAULT) else ""
        raise ScalesProblem(f"has {given.format} codes in the file, but {scheme.format} is needed{takes}")
    extents = static_shape(shape)
    if extents is None:
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
        raise ScalesProblem(f"has blocks of {given.block_size} in the file, but one scale is needed")
    if given.values.size > 1:
        raise ScalesProblem(f"has {given.values.size} scales in the file, but one is needed")
    return given.values.reshape(())


def _by_channel(given: ConstantScales, shape: tuple[int, ...], axis: int) -> Scales:
    if given.block_size is not None:
        raise ScalesProblem(f"has blocks of {given.block_size} in the file, but one scale for each channel is needed")
    if given.values.size == 1:
        return np.full(shape[axis], given.values.item())
    if given.values.size != shape[axis] or given.values.ndim != 1 or not _is_axis(given.axis, axis, len(shape)):
        where = "" if given.axis is None else f" on axis {given.axis}"
        wanted = f"{shape[axis]} on axis {axis}"
        raise ScalesProblem(f"has {given.values.size} scales{where} in the file, but {wanted} are needed")
    return given.values


def _is_axis(named: int | None, axis: int, rank: int) -> bool:
    """Return whether a file names no axis or ``axis``; AIMET may count axes from the end."""
    return named in (None, axis, axis - rank)


def _blocked(given: ConstantScales, shape: tuple[int, ...], wanted: Blocked) -> Iterator[Fitted]:
    """Yield the possible forms of block scales, the best first."""
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
    """Return scales for every block: the scale of its channel, or the one scale of the tensor."""
    whole = wanted.scale_shape(shape)
    if given.values.size == 1:
        return np.full(whole, given.values.item())
    if len(shape) != 2:
        raise ScalesProblem(f"has scales of channels in the file, but {len(shape)} dimensions instead of 2")
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
        raise ScalesProblem(f"has block scales of shape {found} in the file, but {wanted} on axis {axis} is needed")
    return np.broadcast_to(values, expected)


def _first_taken(ways: list[Fitted], shape: tuple[int, ...], scheme: QuantScheme, target: Target) -> Fitted:
    for granularity, scales in ways:
        params = QuantParams(QuantScheme(scheme.format, granularity), np.ones(scales.shape, np.float32))
        if next(refusals(target, params, "float32", shape), None) is None:
            return granularity, scales
    if not ways:
        raise ScalesProblem("has one block in the file, and such a weight computes in float")
    raise ScalesProblem(f"has {ways[0][0]} in the file, which {target.id} does not support")


SHOWN = 3

WeightKey = tuple[TensorKey, str]
"""A constant, and the text of its proposed scheme: two readers may need two schemes."""


@dataclass(frozen=True, slots=True)
class GivenRanges:
    """Ranges matched with a model.

    Attributes:
        ranges: The range of each tensor that placement selects; an unseen range if the file has none.
        scales: The scales of constants that placement selects, if the scales of the file fit.
        report: How the file was used.
    """

    ranges: Ranges
    scales: Mapping[WeightKey, Fitted]
    report: GivenReport


def given_ranges(model: Model, path: Path, recipe: Recipe) -> GivenRanges:
    """Read a range file of another tool and match it with a model.

    A name in the file means every tensor with that name in any scope, because such files have no scopes. A tensor
    without a range in the file gets the range of the tensor from which its values were moved or selected.
    """
    return match_ranges(model, read_encodings(path), path, recipe)


def match_ranges(model: Model, read: ReadEncodings, path: Path, recipe: Recipe) -> GivenRanges:
    """Match a file that was already read; see :func:`given_ranges`."""
    index, found = ModelIndex.of(model), read.found
    if not found.constants:
        recipe.require_ranges(f"it does not use {path}, which has ranges of activations only")
    proposal = propose_for(index, recipe)
    slots, wanted = proposal.slots, [entry.slot for entry in proposal.activations]
    scales, misfits = _fitted(slots, found, index, recipe.target)
    sources = {(slot.scope, slot.tensor): _source(index.value(slot), found) for slot in wanted}
    ranges = {key: found.ranges.get(source, UNSEEN) for key, source in sources.items()}
    remarks = tuple(found.remarks_of(dict.fromkeys(sources.values())))
    known = {value.name for scope in index.view.scopes for value in scope.values.values()}
    unknown = tuple(name for name in found.names if name not in known)
    useful = any(each.count for each in ranges.values()) if wanted else scales
    if slots and not useful:
        raise _nothing_fits(path, unknown, [entry.slot.tensor for entry in slots], [*misfits, *remarks])
    record = CalibrationRecord(
        method=read.format, samples=0, random=False, seed=None, data_sha256="", model_sha256="", preparation=()
    )
    report = GivenReport(
        source=str(path),
        format=read.format,
        mode=recipe.quantize_mode,
        tensors=len(found.names),
        unknown=unknown,
        notes=(
            *(f"{problem}: its scale was computed from its values" for problem in misfits),
            *remarks,
            *_left_in_float(found, index, recipe),
        ),
    )
    return GivenRanges(Ranges(record, ranges), scales, report)


def nearest_mode(model: Model, found: Encodings) -> str:
    """Return the quantize mode that is closest to the formats of a file.

    8-bit activations are quantized, others stay float, because no target computes with 16 bits. Without 8-bit
    activations the weights decide; formats with the fewest bits are tried first.
    """
    constants = _constants(ModelIndex.of(model))
    weights = {name for tensor, name in found.formats.items() if tensor in constants}
    activations = {name for tensor, name in found.formats.items() if tensor not in constants}
    if activations & {"int8", "uint8"}:
        return "int8"
    if "float8e4m3fn" in activations:
        return "fp8"
    return next((mode for mode in modes.of_few_bits() if modes.get(mode).weights in weights), modes.DEFAULT)


def _fitted(
    slots: Sequence[ProposedSlot], found: Encodings, index: ModelIndex, target: str
) -> tuple[dict[WeightKey, Fitted], list[str]]:
    """Return the scales of the constants that fit, and the reasons why other scales do not fit, as text."""
    scales: dict[WeightKey, Fitted] = {}
    misfits: dict[str, list[str]] = {}
    for entry in slots:
        slot, given = entry.slot, found.constants.get(entry.slot.tensor)
        if entry.kind == "weight" and given is not None:
            try:
                fitted = fit_scales(given, index.types.shape(index.value(slot)), entry.scheme, target)
                scales[(slot.scope, slot.tensor), str(entry.scheme)] = fitted
            except ScalesProblem as problem:
                misfits.setdefault(str(problem), []).append(slot.tensor)
    named = ((f"'{first}'{f' (and {len(more)} more)' if more else ''}", why) for why, (first, *more) in misfits.items())
    return scales, [f"weight {name} {why}" for name, why in named]


def _source(value: Value, found: Encodings) -> str:
    """Return the name of the tensor whose range applies to ``value``."""
    names = (source.name for source in ops.moved_from(value))
    return next((name for name in names if name in found.ranges or name in found.formats), value.name)


def _left_in_float(found: Encodings, index: ModelIndex, recipe: Recipe) -> Iterator[str]:
    ranges = () if recipe.mode.needs_ranges else found.ranges.keys() - _constants(index)
    if ranges:
        yield f"mode '{recipe.quantize_mode}' leaves activations in float: {len(ranges)} ranges in the file are unused"


def _constants(index: ModelIndex) -> set[str]:
    values = (value for scope in index.view.scopes for value in scope.values.values())
    return {value.name for value in values if index.constants.is_constant(value)}


def _nothing_fits(path: Path, unknown: tuple[str, ...], wanted: list[str], problems: list[str]) -> UsageError:
    if problems:
        return UsageError(
            f"{path} has no usable scales of the tensors to quantize: {problems[0]}",
            hint="choose the --quantize-mode that the file was made for; `qdqtool explain other-tools` lists them",
        )
    if not unknown:
        return UsageError(f"{path} has no range of any tensor to quantize, such as '{wanted[0]}'")
    near = suggestion(unknown[0], wanted)
    shown = ", ".join(f"'{name}'" for name in unknown[:SHOWN])
    more = f" and {len(unknown) - SHOWN} more" if len(unknown) > SHOWN else ""
    return UsageError(
        f"{path} names no tensor to quantize; the model has no {shown}{more}{near}",
        hint=f"it was made for another model, or with other names; a tensor to quantize is '{wanted[0]}'",
    )
