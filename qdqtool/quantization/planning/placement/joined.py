"""Give the inputs and the output of a Concat one scale, for users who name the operator.

TensorRT moves the Q behind a Concat in front of it. Where another product reads an input of the Concat quantized as
well, as in a U-Net, that tensor then has two Q nodes: with two scales it is written as codes and as float, with one
scale as codes alone. This needs no further pair, only the same scale. It is not the default: the largest range of the
group becomes the scale of all, and tensors with smaller ranges lose resolution.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace

from qdqtool.models import ops
from qdqtool.models.graph.index.model_index import ModelIndex
from qdqtool.models.graph.index.view import NodeView, Value
from qdqtool.quantization.planning.placement.proposal import ProposedSlot


@dataclass(slots=True)
class _Groups:
    """Groups of tensors with one scale, as a union-find forest: each tensor points to another of its group."""

    parents: dict[Value, Value] = field(default_factory=dict)

    def first(self, value: Value) -> Value:
        while (parent := self.parents.setdefault(value, value)) is not value:
            value = parent
        return value

    def join(self, left: Value, right: Value) -> None:
        self.parents[self.first(left)] = self.first(right)


def share_ranges(
    slots: Sequence[ProposedSlot], concats: Sequence[NodeView], index: ModelIndex
) -> tuple[tuple[ProposedSlot, ...], frozenset[NodeView]]:
    """Group the slots around Concats that will have one scale.

    Args:
        slots: The proposed slots.
        concats: The Concats that the user named, in the order of the graph.
        index: The index of the model.

    Returns:
        The slots, those of a group with its number, and the Concats without slots that could share a scale.
    """
    origins = {at: origin(index.value(slot.slot)) for at, slot in enumerate(slots) if _may_share(slot)}
    groups, wanted = _Groups(), set(origins.values())
    joined = list(_joined(concats, groups, wanted))
    members: dict[Value, list[int]] = {}
    for at, value in origins.items():
        members.setdefault(groups.first(value), []).append(at)
    around = {groups.first(output) for _, output in joined}
    shared = {value: places for value, places in members.items() if value in around and len(places) > 1}
    number = {at: first for first, places in enumerate(shared.values()) for at in places}
    result = tuple(replace(slot, range_group=number.get(at)) for at, slot in enumerate(slots))
    sharing = {node for node, output in joined if groups.first(output) in shared}
    return result, frozenset(node for node in concats if node not in sharing)


def origin(value: Value) -> Value:
    """Return the tensor from which ``value`` is produced by operators that only move or select values."""
    *_, first = ops.moved_from(value)
    return first


def _joined(concats: Sequence[NodeView], groups: _Groups, wanted: set[Value]) -> Iterator[tuple[NodeView, Value]]:
    """Join inputs and output of each Concat whose output is quantized, directly or behind another such Concat."""
    for node in reversed(concats):
        output = node.output()
        if output is None or output not in wanted:
            continue
        for index in range(len(node.proto.input)):
            value = node.input(index)
            if value is not None:
                groups.join(origin(value), output)
                wanted.add(origin(value))
        yield node, output


def _may_share(slot: ProposedSlot) -> bool:
    return slot.kind == "activation" and slot.bound is None
