"""Claims of single uses on Q/DQ pairs, and their combination to shared slots."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace

from qdqtool.models import ops
from qdqtool.models.graph.index.view import NodeView, Value
from qdqtool.models.plan import Slot, UseRef
from qdqtool.numerics import formats
from qdqtool.numerics.granularity import Blocked, Granularity, PerAxis
from qdqtool.numerics.scheme import QuantScheme
from qdqtool.quantization.planning.placement.proposal import Kind, ProposedSlot, Reason


@dataclass(frozen=True, slots=True)
class Claim:
    """A claim: input ``index`` of ``node`` should read ``value`` dequantized."""

    node: NodeView
    index: int
    value: Value
    kind: Kind
    granularity: Granularity
    reason: str


Decision = tuple[Claim, ...] | Reason | None
"""The decision on a node: its claims, a reason to stay float, or None for a node that is not quantizable at all."""

_Group = tuple[Value, Kind, Granularity]


MakeScheme = Callable[[Granularity], QuantScheme]
"""Returns the scheme of a tensor whose scales have a granularity."""


def int8_scheme(granularity: Granularity) -> QuantScheme:
    """Return the scheme of symmetric int8."""
    return QuantScheme(formats.get("int8"), granularity)


def share_slots(claims: Iterable[Claim], make_scheme: MakeScheme = int8_scheme) -> tuple[ProposedSlot, ...]:
    """Return one slot for all claims on a tensor with one granularity, in the order of the first claim.

    A slot for a constant that reaches its consumers through Identity or Transpose moves in front of those, where the
    stored tensor can be packed.
    """
    groups: dict[_Group, list[Claim]] = {}
    for claim in claims:
        groups.setdefault((claim.value, claim.kind, claim.granularity), []).append(claim)
    while (lifted := _lift(groups)) is not groups:
        groups = lifted
    return tuple(_slot(group, members, make_scheme) for group, members in groups.items())


def _lift(groups: dict[_Group, list[Claim]]) -> dict[_Group, list[Claim]]:
    """Move every slot that can be moved up by one node; return the same dict if there is none."""
    result: dict[_Group, list[Claim]] = {}
    changed = False
    for group, members in groups.items():
        upper = _above(group, members)
        changed = changed or upper is not None
        above, claims = upper or (group, members)
        result.setdefault(above, []).extend(claims)
    return result if changed else groups


def _above(group: _Group, members: list[Claim]) -> tuple[_Group, list[Claim]] | None:
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
    return (source, kind, lifted), [Claim(node, 0, source, kind, lifted, reason)]


def _in_front(node: NodeView, source: Value, granularity: Granularity) -> Granularity | None:
    """Return the granularity of ``source`` that is ``granularity`` behind ``node``; None where the axis is unknown."""
    if not isinstance(granularity, PerAxis | Blocked):
        return granularity
    rank = len(source.initializer.dims) if source.initializer is not None else None
    axis = ops.source_axis(node, granularity.axis, rank)
    return replace(granularity, axis=axis) if axis is not None else None


def _slot(group: _Group, members: list[Claim], make_scheme: MakeScheme) -> ProposedSlot:
    value, kind, granularity = group
    refs = dict.fromkeys(UseRef(claim.node.scope.path, claim.node.key, claim.index) for claim in members)
    slot = Slot(value.scope.path, value.name, tuple(refs))
    return ProposedSlot(slot, kind, make_scheme(granularity), _reasons(members))


def _reasons(members: list[Claim]) -> str:
    return ", ".join(dict.fromkeys(claim.reason for claim in members))
