"""Provide facts about tensors to placement, and group the tensor uses that get Q/DQ pairs."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace

from qdqtool.models import ops
from qdqtool.models.graph.index.calls import call_counts
from qdqtool.models.graph.index.model_index import ModelIndex
from qdqtool.models.graph.index.qdq import is_dequantized
from qdqtool.models.graph.index.types import Shape
from qdqtool.models.graph.index.view import GraphView, NodeView, Scope, Value
from qdqtool.models.graph.io.copying import without_weights
from qdqtool.models.graph.model import Model
from qdqtool.models.graph.scope import MAIN
from qdqtool.models.plan import Slot, UseRef
from qdqtool.models.plugins import plugin_operators, stand_in_paths
from qdqtool.models.targets import Target, type_name
from qdqtool.models.transforms.taps import TensorKey, tap_tensors, tensor_key
from qdqtool.numerics.granularity import Blocked, Granularity, PerAxis
from qdqtool.numerics.scheme import QuantScheme
from qdqtool.quantization.planning.placement.proposal import Kind, ProposedSlot, Reason, Selection


@dataclass(frozen=True, slots=True)
class UseClaim:
    """A claim of a node: its input ``index`` should read ``value`` dequantized."""

    node: NodeView
    index: int
    value: Value
    kind: Kind
    granularity: Granularity
    reason: str


Decision = tuple[UseClaim, ...] | Reason | None
"""The decision on a node: its claims, a reason to stay float, or None for a node that cannot be quantized at all."""

_Group = tuple[Value, Kind, Granularity]


MakeScheme = Callable[[Granularity], QuantScheme]
"""Returns the scheme of a tensor from the granularity of its scales."""


def share_slots(claims: Iterable[UseClaim], make_scheme: MakeScheme) -> tuple[ProposedSlot, ...]:
    """Return one slot for all claims on a tensor with one granularity, in the order of the first claim.

    If a constant reaches its consumers through Identity or Transpose, its slot moves before these nodes, where the
    stored tensor can be packed.
    """
    groups: dict[_Group, list[UseClaim]] = {}
    for claim in claims:
        groups.setdefault((claim.value, claim.kind, claim.granularity), []).append(claim)
    while (lifted := _lift(groups)) is not groups:
        groups = lifted
    return tuple(_slot(group, members, make_scheme) for group, members in groups.items())


def _lift(groups: dict[_Group, list[UseClaim]]) -> dict[_Group, list[UseClaim]]:
    """Move every slot before the previous node if possible; return the same dict if no slot can be moved."""
    result: dict[_Group, list[UseClaim]] = {}
    changed = False
    for group, members in groups.items():
        upper = _above(group, members)
        changed = changed or upper is not None
        above, claims = upper or (group, members)
        result.setdefault(above, []).extend(claims)
    return result if changed else groups


def _above(group: _Group, members: list[UseClaim]) -> tuple[_Group, list[UseClaim]] | None:
    value, kind, granularity = group
    node = value.producer
    if kind != "weight" or node is None or not ops.traits(node).reorders_axes or value.is_output:
        return None
    source = node.input(0)
    assert source is not None
    if {(use.node, use.index) for use in value.uses} != {(claim.node, claim.index) for claim in members}:
        return None
    lifted = _in_front(node, source, granularity)
    if lifted is None:
        return None
    reason = _reasons(members)
    return (source, kind, lifted), [UseClaim(node, 0, source, kind, lifted, reason)]


def _in_front(node: NodeView, source: Value, granularity: Granularity) -> Granularity | None:
    """Return the granularity of ``source`` that becomes ``granularity`` after ``node``; None if the axis is unknown."""
    if not isinstance(granularity, PerAxis | Blocked):
        return granularity
    rank = len(source.initializer.dims) if source.initializer is not None else None
    axis = ops.source_axis(node, granularity.axis, rank)
    return replace(granularity, axis=axis) if axis is not None else None


def _slot(group: _Group, members: list[UseClaim], make_scheme: MakeScheme) -> ProposedSlot:
    value, kind, granularity = group
    refs = dict.fromkeys(UseRef(claim.node.scope.path, claim.node.key, claim.index) for claim in members)
    slot = Slot(value.scope.path, value.name, tuple(refs))
    return ProposedSlot(slot, kind, make_scheme(granularity), _reasons(members))


def _reasons(members: list[UseClaim]) -> str:
    return ", ".join(dict.fromkeys(claim.reason for claim in members))


FLOAT_TYPES = frozenset({"bfloat16", "float16", "float32"})
"""The float types that QuantizeLinear accepts in ONNX; a target may accept fewer types, or more than ONNX allows."""

MISSING_OPERAND = Reason("missing-operand", "an operand is missing")
QUANTIZED_ALREADY = Reason("quantized-already", "it is quantized already")


class PlacementContext:
    """A model with the facts that placement needs."""

    def __init__(self, index: ModelIndex, target: Target, selection: Selection) -> None:
        self.index = index
        self.target = target
        self.selection = selection
        self._unreachable = _unreachable(index)
        self._calls = call_counts(index.view)
        self._plugins = plugin_operators(index.model.proto)
        self._stand_ins = stand_in_paths(index.model.proto)

    def is_constant(self, value: Value) -> bool:
        """Return whether the tensor folds to a constant."""
        return self.index.constants.is_constant(value)

    def shape(self, value: Value) -> Shape | None:
        """Return the known extents of a tensor; the shape of a constant that folds is complete."""
        known = self.index.types.shape(value)
        if known is not None:
            return known
        array = self.index.constants.array(value)
        return array.shape if array is not None else None

    def is_float(self, value: Value) -> bool:
        """Return whether a tensor may hold real numbers: False for integers, booleans and strings."""
        known = self.index.types.elem_type(value)
        return known is None or "float" in type_name(known)

    def type_obstacle(self, value: Value) -> Reason | None:
        """Return why a tensor cannot be quantized for the target (its type, or no elements), or None if it can be."""
        if 0 in (self.index.types.shape(value) or ()):
            return Reason("no-elements", f"'{value.name}' has no elements")
        known = self.index.types.elem_type(value)
        if known is None:
            return Reason("unknown-type", f"the type of '{value.name}' is unknown")
        name, legal = type_name(known), FLOAT_TYPES & self.target.data_types
        if name in legal:
            return None
        takes = f"{self.target.title} quantizes {', '.join(sorted(legal))}"
        return Reason("unsupported-type", f"'{value.name}' is {name}; {takes}")

    def plugin(self, node: NodeView) -> Reason | None:
        """Return why a node stays float if TensorRT runs a plugin in its place, or in place of its local function."""
        if (node.domain, node.op_type) in self._plugins:
            return Reason("float-operator", "TensorRT runs it as a plugin")
        if node.scope.path[:1] in self._stand_ins:
            return Reason("float-operator", f"TensorRT runs a plugin in place of {node.scope.path[0]}")
        return None

    def calls(self, scope: Scope) -> int:
        """Return the number of calls of the function of a scope from the main graph; 1 outside functions."""
        return self._calls[scope.path[:1]] if scope.in_function else 1

    def obstacle(self, value: Value) -> Reason | None:
        """Return why an activation cannot have a pair, or None if it can."""
        if value.producer is not None and is_dequantized(value):
            return _quantized_by(value.producer)
        unreachable = self._unreachable.get(tensor_key(value))
        if unreachable is not None:
            return Reason("not-observable", f"'{value.name}' cannot be observed: {unreachable}")
        return self.type_obstacle(value)


def _quantized_by(dequantize: NodeView) -> Reason:
    """Return the reason why the output of a DQ gets no pair."""
    codes = dequantize.input(0)
    maker = codes.producer if codes is not None else None
    if maker is not None and maker.op_type.startswith("QLinear"):
        made = f"it reads the output of {maker.op_type} '{maker.label}'"
        return Reason("quantized-already", f"{made}; `qdqtool normalize` turns such operators into pairs")
    return QUANTIZED_ALREADY


def _unreachable(index: ModelIndex) -> Mapping[TensorKey, str]:
    """Return, by tensor, why inputs of quantizable operators in bodies and functions cannot be observed."""
    inner = [value for value in _read_in_bodies(index.view) if not index.constants.is_constant(value)]
    if not inner:
        return {}
    stripped = GraphView(Model(without_weights(index.model.proto), index.model.path))
    return tap_tensors(stripped, inner, index.types.elem_type).report.unreachable


def _read_in_bodies(view: GraphView) -> Iterator[Value]:
    for node in view.nodes():
        if ops.get(node) is not None:
            yield from (value for value in node.present_inputs if value.scope.path != MAIN)
