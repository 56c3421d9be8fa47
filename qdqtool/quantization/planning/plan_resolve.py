"""Resolve a plan file for a model: match its patterns with tensors, and check its numbers."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path

import numpy as np
import onnx

from qdqtool.errors import ArgumentError, UsageError
from qdqtool.models.graph.index.model_index import ModelIndex
from qdqtool.models.graph.index.qdq import is_dequantized, is_qdq
from qdqtool.models.graph.index.types import Shape, TensorTypes, static_shape
from qdqtool.models.graph.index.view import NodeView, Use, Value
from qdqtool.models.graph.io.tensors import onnx_type_name
from qdqtool.models.graph.scope import display
from qdqtool.models.plan import Placement, QuantPlan, Slot, UseRef
from qdqtool.numerics import formats
from qdqtool.numerics.dtypes import Array
from qdqtool.numerics.granularity import Blocked, Granularity, PerAxis, PerTensor, check_scale_shape, normalize_axis
from qdqtool.numerics.number_format import NumberFormat
from qdqtool.numerics.scheme import QuantParams, QuantScheme
from qdqtool.quantization.planning.plan_file import PlanEntry, PlanFile, read_numbers
from qdqtool.quantization.planning.plan_scales import stored_scale
from qdqtool.quantization.planning.planner import Planned
from qdqtool.registry import suggestion

FLOAT_TYPES = frozenset({onnx.TensorProto.FLOAT, onnx.TensorProto.FLOAT16, onnx.TensorProto.BFLOAT16})


@dataclass(frozen=True, slots=True, eq=False)
class _Match:
    entry: PlanEntry
    number: int
    value: Value
    exact: bool
    uses: tuple[Use, ...] | None


@dataclass(frozen=True, slots=True)
class FilePlanner:
    """Makes plans from a plan file; array references are relative to the folder."""

    file: PlanFile
    folder: Path

    def plan(self, index: ModelIndex) -> Planned:
        """Return the plan for one model; errors are those of :func:`resolve_plan`."""
        return Planned(plan=resolve_plan(self.file, index, self.folder))


def resolve_plan(plan: PlanFile, index: ModelIndex, folder: Path) -> QuantPlan:
    """Return the placements of a plan file for one model, in the order of the first entry for each tensor.

    An entry with the exact name of a tensor overrides globs that also match it.

    Args:
        plan: The decoded plan file.
        index: The index of the model.
        folder: The folder to which array references of the plan are relative.
    """
    matches = [match for number, entry in enumerate(plan.tensors, 1) for match in _matches(entry, number, index)]
    chosen = _without_overridden(matches)
    _refuse_double_claims(chosen)
    return QuantPlan(tuple(_placement(match, index.types, folder) for match in chosen))


def _matches(entry: PlanEntry, number: int, index: ModelIndex) -> list[_Match]:
    types = index.types
    candidates = [value for value in index.view.values() if _in_scope(value, entry.scope)]
    named = [value for value in candidates if entry.tensor in {value.name, value.qualified_name}]
    where = f"plan entry {number}"
    if named:
        for value in named:
            _check_quantizable(value, types, where)
        return [_Match(entry, number, value, True, _chosen_uses(entry, value, where)) for value in named]
    found = [value for value in candidates if fnmatchcase(value.name, entry.tensor) and _obstacle(value, types) is None]
    if not found:
        raise _no_match(entry, where, candidates, types)
    return [_Match(entry, number, value, False, _chosen_uses(entry, value, where)) for value in found]


def _in_scope(value: Value, pattern: str | None) -> bool:
    scope = display(value.scope.path)
    return pattern is None or pattern == scope or fnmatchcase(scope, pattern)


def _no_match(entry: PlanEntry, where: str, candidates: Iterable[Value], types: TensorTypes) -> UsageError:
    names = [value.name for value in candidates if types.elem_type(value) in FLOAT_TYPES]
    scope = f" in scope '{entry.scope}'" if entry.scope is not None else ""
    return UsageError(
        f"{where}: no float tensor matches '{entry.tensor}'{scope}{suggestion(entry.tensor, names)}",
        hint="`qdqtool inspect --tensors MODEL` lists the tensors",
    )


def _obstacle(value: Value, types: TensorTypes) -> str | None:
    """Return why a tensor cannot have a Q/DQ pair, or None if it can."""
    elem_type = types.elem_type(value)
    if elem_type not in FLOAT_TYPES:
        return f"its type is {onnx_type_name(elem_type)}; only float, float16 and bfloat16 tensors are quantized"
    if is_dequantized(value):
        return "it is the output of a DequantizeLinear already"
    if any(is_qdq(use.node) for use in value.uses):
        return "it feeds a QuantizeLinear or DequantizeLinear already"
    if not value.uses and not value.is_output:
        return "nothing reads it"
    return None


def _check_quantizable(value: Value, types: TensorTypes, where: str) -> None:
    obstacle = _obstacle(value, types)
    if obstacle is not None:
        raise UsageError(f"{where}: tensor '{value.qualified_name}' cannot be quantized: {obstacle}")


def _chosen_uses(entry: PlanEntry, value: Value, where: str) -> tuple[Use, ...] | None:
    if entry.consumers is None:
        return None
    chosen: list[Use] = []
    for pattern in entry.consumers:
        found = [use for use in value.uses if _is_named(use.node, pattern)]
        if not found:
            legal = sorted({name for use in value.uses for name in _names(use.node)[:1]})
            shown = ", ".join(legal) or "none"
            raise UsageError(f"{where}: tensor '{value.qualified_name}' has no consumer '{pattern}'; it has {shown}")
        chosen += [use for use in found if use not in chosen]
    return tuple(chosen)


def _is_named(node: NodeView, pattern: str) -> bool:
    names = _names(node)
    return pattern in names or any(fnmatchcase(name, pattern) for name in names)


def _names(node: NodeView) -> list[str]:
    """Return the names of a node that a plan may use: its own name, if any, and the names of its outputs."""
    return [name for name in (node.proto.name, *node.proto.output) if name]


def _without_overridden(matches: list[_Match]) -> list[_Match]:
    exact = {claim for match in matches if match.exact for claim in _claims(match)}
    return [match for match in matches if match.exact or not exact.intersection(_claims(match))]


def _refuse_double_claims(matches: list[_Match]) -> None:
    owners: dict[object, _Match] = {}
    for match in matches:
        for claim in _claims(match):
            other = owners.setdefault(claim, match)
            if other is not match:
                raise UsageError(
                    f"plan entries {other.number} and {match.number} both quantize tensor "
                    f"'{match.value.qualified_name}' for the same use",
                    hint="name different consumers in both, or remove one entry",
                )


def _claims(match: _Match) -> Iterator[object]:
    yield from match.value.uses if match.uses is None else match.uses
    if match.uses is None:
        # The tensor itself, as a graph output.
        yield match.value


def _placement(match: _Match, types: TensorTypes, folder: Path) -> Placement:
    value, entry = match.value, match.entry
    try:
        params = _params(entry, value, types, folder)
    except ArgumentError as error:
        raise UsageError(f"plan entry {match.number}: tensor '{value.qualified_name}': {error.message}") from None
    uses = None
    if match.uses is not None:
        uses = tuple(UseRef(use.node.scope.path, use.node.key, use.index) for use in match.uses)
    return Placement(Slot(value.scope.path, value.name, uses), params, entry.reason)


def _params(entry: PlanEntry, value: Value, types: TensorTypes, folder: Path) -> QuantParams:
    fmt = formats.get(entry.format)
    if fmt.first_opset.quantize is None:
        raise ArgumentError(f"format '{fmt}' cannot be the output of QuantizeLinear")
    shape = types.shape(value)
    given = read_numbers(entry.scale, folder, f"scale of tensor '{value.name}'")
    granularity = _granularity(entry, given, len(shape) if shape is not None else None)
    stored = stored_scale(entry, given, types.elem_type(value), folder)
    scale = _spread(stored.scale, granularity, shape)
    _check_shape(scale, granularity, shape)
    zero_point = None
    if entry.zero_point is not None:
        codes = read_numbers(entry.zero_point, folder, f"zero_point of tensor '{value.name}'")
        zero_point = _codes(codes, fmt, scale.shape)
    if np.any(scale.astype(np.float64) < 0) and not value.is_stored:
        raise ArgumentError("a scale is negative, but only stored weights may have negative scales")
    symmetric = zero_point is None or not zero_point.astype(np.float32).any()
    scheme = QuantScheme(fmt, granularity, symmetric, stored.scheme)
    return QuantParams(scheme, scale, zero_point, stored.params)


def _granularity(entry: PlanEntry, scale: Array, rank: int | None) -> Granularity:
    if entry.block_size is not None and entry.axis is None:
        raise ArgumentError("block_size needs axis")
    if entry.axis is None or (scale.size == 1 and entry.block_size is None):
        if scale.size != 1:
            raise ArgumentError(f"scale has {scale.size} elements and no axis; name the axis they run along")
        return PerTensor()
    if rank is None and entry.axis < 0:
        raise ArgumentError(f"axis is {entry.axis}, but the tensor's rank is unknown; count it from the front")
    axis = normalize_axis(entry.axis, rank) if rank is not None else entry.axis
    return PerAxis(axis) if entry.block_size is None else Blocked(axis, entry.block_size)


def _spread(scale: Array, granularity: Granularity, shape: Shape | None) -> Array:
    if scale.size != 1:
        return scale
    if isinstance(granularity, PerTensor):
        return scale.reshape(())
    static = static_shape(shape)
    if static is None:
        raise ArgumentError("one scale for all blocks needs a tensor of known shape; list the scales")
    return np.broadcast_to(scale.reshape(()), granularity.scale_shape(static))


def _check_shape(scale: Array, granularity: Granularity, shape: Shape | None) -> None:
    static = static_shape(shape)
    if static is not None:
        check_scale_shape(scale.shape, static, granularity)
    elif isinstance(granularity, PerAxis):
        known = shape[granularity.axis] if shape is not None else None
        if scale.ndim != 1 or (isinstance(known, int) and known != scale.size):
            raise ArgumentError(f"scale has shape {list(scale.shape)}; {granularity} needs [{known or 'axis length'}]")


def _codes(codes: Array, fmt: NumberFormat, shape: tuple[int, ...]) -> Array:
    values = codes.astype(np.float64)
    bad = ~((values >= fmt.low) & (values <= fmt.high) & (values == np.rint(values)))
    if bad.any():
        raise ArgumentError(
            f"zero_point is {values[bad].flat[0]:g}; {fmt} has integers from {fmt.low:g} to {fmt.high:g}"
        )
    spread = np.broadcast_to(codes.reshape(()), shape) if codes.size == 1 else codes
    return spread.astype(fmt.dtype)
