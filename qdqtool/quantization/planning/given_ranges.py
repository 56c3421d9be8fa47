"""Match the ranges of another tool with a model, by tensor name."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from qdqtool.errors import UsageError
from qdqtool.models import ops
from qdqtool.models.graph.index.model_index import ModelIndex
from qdqtool.models.graph.index.view import Value
from qdqtool.models.graph.model import Model
from qdqtool.quantization.planning import modes
from qdqtool.quantization.planning.given_scales import Fitted, ScalesProblem, fit_scales
from qdqtool.quantization.planning.placement import ProposedSlot
from qdqtool.quantization.planning.proposal import propose_for
from qdqtool.quantization.planning.recipe import Recipe
from qdqtool.quantization.ranges.encodings import Encodings, ReadEncodings, read_encodings
from qdqtool.quantization.ranges.types import UNSEEN, CalibrationRecord, Ranges, TensorKey
from qdqtool.registry import suggestion

SHOWN = 3

WeightKey = tuple[TensorKey, str]
"""A constant, and the scheme that placement proposes for it, in words: two readers may want two of them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GivenReport:
    """The use that was made of a range file of another tool.

    Attributes:
        source: The file.
        format: Id of its format (:mod:`qdqtool.quantization.ranges.encodings`).
        mode: The quantize mode for which it was used.
        tensors: How many tensors it names.
        weights: How many constants got the scales that it has for them; known when the plan is made.
        unknown: Those that the model does not have.
        notes: Statements of the file that could not be followed.
    """

    source: str
    format: str
    mode: str
    tensors: int
    weights: int = 0
    unknown: tuple[str, ...]
    notes: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class GivenRanges:
    """Ranges matched with a model.

    Attributes:
        ranges: The range of each tensor that placement chooses; unseen where the file has none.
        scales: The scales of constants that placement chooses, where those of the file fit.
        report: The use that was made of the file.
    """

    ranges: Ranges
    scales: Mapping[WeightKey, Fitted]
    report: GivenReport


def given_ranges(model: Model, path: Path, recipe: Recipe) -> GivenRanges:
    """Read a range file of another tool and match it with a model.

    A name stands for every tensor of that name in any scope, since such files have no scopes. A tensor without a range
    of its own takes the range of the tensor whose values it holds, moved or selected.

    Raises:
        UsageError: The file is no such file or malformed, or names none of the tensors that are to be quantized.
    """
    return match_ranges(model, read_encodings(path), path, recipe)


def match_ranges(model: Model, read: ReadEncodings, path: Path, recipe: Recipe) -> GivenRanges:
    """Match a file that was read already, as in :func:`given_ranges`."""
    index, found = ModelIndex.of(model), read.found
    if not found.constants:
        recipe.require_ranges(f"it has no use for ranges {path}, which are of activations")
    proposal = propose_for(index, recipe)
    slots, wanted = proposal.slots, [entry.slot for entry in proposal.activations]
    weights = _Weights(index, recipe)
    for entry in slots:
        if entry.kind == "weight" and entry.slot.tensor in found.constants:
            weights.add(entry, found)
    sources = {(slot.scope, slot.tensor): _source(index.value(slot), found) for slot in wanted}
    ranges = {key: found.ranges.get(source, UNSEEN) for key, source in sources.items()}
    remarks = tuple(found.remarks_of(dict.fromkeys(sources.values())))
    known = {value.name for scope in index.view.scopes for value in scope.values.values()}
    unknown = tuple(name for name in found.names if name not in known)
    useful = any(each.count for each in ranges.values()) if wanted else weights.scales
    if slots and not useful:
        raise _nothing_fits(path, unknown, [entry.slot.tensor for entry in slots], [*weights.problems(), *remarks])
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
            *(f"{problem}: scaled by its values" for problem in weights.problems()),
            *remarks,
            *_left_in_float(found, index, recipe),
        ),
    )
    return GivenRanges(Ranges(record, ranges), weights.scales, report)


def nearest_mode(model: Model, found: Encodings) -> str:
    """Return the quantize mode that is nearest to the formats of a file.

    Activations of 8 bits are quantized, others stay float: no target computes with 16 bits. Without 8-bit activations
    the weights decide, those with the fewest bits first.
    """
    constants = _constants(ModelIndex.of(model))
    weights = {name for tensor, name in found.formats.items() if tensor in constants}
    activations = {name for tensor, name in found.formats.items() if tensor not in constants}
    if activations & {"int8", "uint8"}:
        return "int8"
    if "float8e4m3fn" in activations:
        return "fp8"
    return next((mode for mode in modes.of_few_bits() if modes.get(mode).weights in weights), modes.DEFAULT)


class _Weights:
    """Collects the scales of constants that fit, and why the others do not."""

    def __init__(self, index: ModelIndex, recipe: Recipe) -> None:
        self._index = index
        self._recipe = recipe
        self._problems: dict[str, list[str]] = {}
        self.scales: dict[WeightKey, Fitted] = {}

    def add(self, entry: ProposedSlot, found: Encodings) -> None:
        slot = entry.slot
        shape = self._index.types.shape(self._index.value(slot))
        try:
            fitted = fit_scales(found.constants[slot.tensor], shape, entry.scheme, self._recipe.target)
            self.scales[(slot.scope, slot.tensor), str(entry.scheme)] = fitted
        except ScalesProblem as problem:
            self._problems.setdefault(str(problem), []).append(slot.tensor)

    def problems(self) -> Iterator[str]:
        for problem, tensors in self._problems.items():
            more = "" if len(tensors) == 1 else f" (and {len(tensors) - 1} more)"
            yield f"weight '{tensors[0]}'{more} {problem}"


def _source(value: Value, found: Encodings) -> str:
    """Return the name of the tensor whose range ``value`` has."""
    names = (source.name for source in ops.moved_from(value))
    return next((name for name in names if name in found.ranges or name in found.formats), value.name)


def _left_in_float(found: Encodings, index: ModelIndex, recipe: Recipe) -> Iterator[str]:
    ranges = () if recipe.mode.needs_ranges else found.ranges.keys() - _constants(index)
    if ranges:
        yield f"mode '{recipe.quantize_mode}' leaves activations in float: {len(ranges)} ranges of the file have no use"


def _constants(index: ModelIndex) -> set[str]:
    values = (value for scope in index.view.scopes for value in scope.values.values())
    return {value.name for value in values if index.constants.is_constant(value)}


def _nothing_fits(path: Path, unknown: tuple[str, ...], wanted: list[str], problems: list[str]) -> UsageError:
    if problems:
        return UsageError(
            f"{path} has nothing for the tensors that are to be quantized: {problems[0]}",
            hint="choose the --quantize-mode that the file was made for; `qdqtool explain foreign_ranges` lists them",
        )
    if not unknown:
        return UsageError(f"{path} has no range of a tensor that is to be quantized, such as '{wanted[0]}'")
    near = suggestion(unknown[0], wanted)
    shown = ", ".join(f"'{name}'" for name in unknown[:SHOWN])
    more = f" and {len(unknown) - SHOWN} more" if len(unknown) > SHOWN else ""
    return UsageError(
        f"{path} names no tensor that is to be quantized; the model has no {shown}{more}{near}",
        hint=f"it was made for another model, or with other names; wanted is for example '{wanted[0]}'",
    )
