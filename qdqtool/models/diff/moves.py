"""Find pairs that moved: removed in one place, and added with the same constants a few nodes away."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from qdqtool.models.diff.sites import Step
from qdqtool.models.graph.index.view import NodeView

REACH = 3
"""The greatest number of nodes that a pair may have passed."""


@dataclass(frozen=True, slots=True)
class Moved:
    """A step that only one of the models has at its place, with the nodes next to it."""

    step: Step
    around: frozenset[NodeView]


@dataclass(frozen=True, slots=True)
class Move:
    """The number of a removed step, and of the added step that replaces it."""

    before: int
    after: int


def pair_moves(
    gone: Sequence[Moved],
    came: Sequence[Moved],
    nodes: Mapping[NodeView, NodeView],
    equal: Callable[[Step, Step], bool],
) -> Iterator[Move]:
    """Find for each removed step an added one that is near and equal.

    Args:
        gone: The removed steps, of the first model.
        came: The added steps, of the second.
        nodes: Nodes of the first with their counterparts in the second.
        equal: Whether a step of the first and one of the second have the same constants.
    """
    places: dict[NodeView, list[int]] = {}
    for number, each in enumerate(came):
        for node in each.around:
            places.setdefault(node, []).append(number)
    taken: set[int] = set()
    for number, each in enumerate(gone):
        for other in _near(each.around, nodes, places):
            if other not in taken and equal(each.step, came[other].step):
                taken.add(other)
                yield Move(number, other)
                break


def _near(
    start: Iterable[NodeView], nodes: Mapping[NodeView, NodeView], places: Mapping[NodeView, list[int]]
) -> Iterator[int]:
    """Yield the steps next to nodes within :data:`REACH` of ``start``, the nearest first."""
    seen, edge = set(start), list(start)
    for _ in range(REACH + 1):
        for node in edge:
            counterpart = nodes.get(node)
            yield from places.get(counterpart, ()) if counterpart is not None else ()
        edge = [near for node in edge for near in _neighbours(node) if near not in seen]
        seen.update(edge)


def _neighbours(node: NodeView) -> Iterator[NodeView]:
    for index in range(len(node.proto.input)):
        value = node.input(index)
        if value is not None and value.producer is not None:
            yield value.producer
    for index in range(len(node.proto.output)):
        value = node.output(index)
        if value is not None:
            yield from (use.node for use in value.uses)
