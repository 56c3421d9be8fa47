"""Find the Q/DQ nodes that a tensor passes before a node reads it, also through operators that only move values."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from qdqtool.models import ops
from qdqtool.models.diff.matching import MAX_STEPS, QdqStep, ReadSite, Side
from qdqtool.models.diff.parameters import changes
from qdqtool.models.graph.index.view import NodeView, Value
from qdqtool.numerics.granularity import PerTensor

REACH = 3
"""Largest number of nodes that a moved pair may have passed."""


@dataclass(frozen=True, slots=True)
class Moved:
    """A step that only one of the models has at its position, with the nodes next to it."""

    step: QdqStep
    around: frozenset[NodeView]


def pair_moves(
    gone: Sequence[Moved],
    came: Sequence[Moved],
    nodes: Mapping[NodeView, NodeView],
    equal: Callable[[QdqStep, QdqStep], bool],
) -> Iterator[tuple[int, int]]:
    """Find for each removed step an equal added step nearby.

    Args:
        gone: The Q/DQ nodes that only the first model has.
        came: The Q/DQ nodes that only the second model has.
        nodes: Nodes of the first model with their counterparts in the second.
        equal: Returns whether a step of the first model and a step of the second have the same constants.
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
                yield number, other
                break


def _near(
    start: Iterable[NodeView], nodes: Mapping[NodeView, NodeView], places: Mapping[NodeView, list[int]]
) -> Iterator[int]:
    """Yield the steps next to nodes at most :data:`REACH` nodes from ``start``, the nearest first."""
    seen, edge = set(start), list(start)
    for _ in range(REACH + 1):
        for node in edge:
            counterpart = nodes.get(node)
            yield from places.get(counterpart, ()) if counterpart is not None else ()
        edge = [near for node in edge for near in _neighbours(node) if near not in seen]
        seen.update(edge)


def _neighbours(node: NodeView) -> Iterator[NodeView]:
    yield from (value.producer for value in node.present_inputs if value.producer is not None)
    yield from (use.node for value in node.present_outputs for use in value.uses)


MAX_MOVES = 64


@dataclass(frozen=True, slots=True)
class Passed:
    """A step that a tensor passed.

    Attributes:
        step: The step.
        moves: Number of operators between the step and the reader that move values to other positions. 0 for a step
            with a single scale, because it commutes with these operators: the order does not change the result.
    """

    step: QdqStep
    moves: int


def reading(side: Side, value: Value | None) -> tuple[Passed, ...]:
    """Return the steps that ``value`` passed since the last operator that computes something, the nearest first.

    A step that repeats its neighbor counts once: quantizing twice with the same constants gives the same codes.
    """
    found: list[Passed] = []
    moves = 0
    for _ in range(MAX_MOVES):
        steps, value = side.steps(value)
        for step in steps:
            place = 0 if step.main.granularity == PerTensor() else moves
            if not found or found[-1].moves != place or changes(side, found[-1].step, side, step):
                found.append(Passed(step, place))
        producer = value.producer if value is not None else None
        if producer is None or not commutes(producer) or len(found) >= MAX_STEPS:
            break
        moves += not ops.traits(producer).passes_values
        value = producer.input(0)
    return tuple(found)


def commutes(node: NodeView) -> bool:
    """Return whether a pair with one scale gives the same result before and after a node.

    This holds for operators that move values, and for Relu: rounding is monotonic and keeps 0.
    """
    return ops.moves_codes(node) or ops.traits(node).passes_values or node.is_op("Relu")


def computes(site: ReadSite) -> bool:
    """Return whether the reader at a site computes with the values, instead of only moving them."""
    return site.node is None or site.index != 0 or not commutes(site.node)
