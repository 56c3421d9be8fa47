"""One scale for what a Concat joins, for users who ask for it by naming the operator.

The Q behind a Concat is moved in front of it by TensorRT. Where an input of the Concat is read quantized elsewhere too,
as the skip tensors of a U-Net are, it then has two Qs: with two scales it is written as codes and as float, with one
scale as codes alone. No further pair is needed for that, only the same scale. It is not done unasked: the largest range
of the group is the scale of all, and tensors with smaller ranges lose resolution.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace

from qdqtool import ops
from qdqtool.graph.index.model_index import ModelIndex
from qdqtool.graph.index.view import NodeView, Value
from qdqtool.planning.placement.proposal import ProposedSlot

MAX_STEPS = 64


@dataclass(slots=True)
class _Groups:
    """Tensors that are to have one scale, as a forest: each points to another of its group, the first to itself."""

    parents: dict[Value, Value] = field(default_factory=dict)

    def first(self, value: Value) -> Value:
        passed = []
        while (parent := self.parents.setdefault(value, value)) is not value:
            passed.append(value)
            value = parent
        self.parents.update(dict.fromkeys(passed, value))
        return value

    def join(self, left: Value, right: Value) -> None:
        self.parents[self.first(left)] = self.first(right)


def share_ranges(
    slots: Sequence[ProposedSlot], concats: Sequence[NodeView], index: ModelIndex
) -> tuple[tuple[ProposedSlot, ...], frozenset[NodeView]]:
    """Let slots around Concats have one scale.

    Args:
        slots: What placement proposes.
        concats: The Concats that the user asks for, in the order of the graph.
        index: The index of the model.

    Returns:
        The slots, those of a group with its number, and the Concats around which there is nothing to share.
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
    """The tensor that ``value`` is made of by operators that only move or select values."""
    for _ in range(MAX_STEPS):
        maker = value.producer
        source = maker.input(0) if maker is not None and ops.moves_values(maker) else None
        if source is None:
            break
        value = source
    return value


def _joined(concats: Sequence[NodeView], groups: _Groups, wanted: set[Value]) -> Iterator[tuple[NodeView, Value]]:
    """Join inputs and output of each Concat whose output is quantized, be it behind another such Concat."""
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
