"""What readers get: the Q/DQ steps that their tensor went through, with operators that only move values in between."""

from dataclasses import dataclass

from qdqtool.models import ops
from qdqtool.models.diff.parameters import changes
from qdqtool.models.diff.sites import MAX_STEPS, Side, Site, Step
from qdqtool.models.graph.index.view import NodeView, Value
from qdqtool.numerics.granularity import PerTensor

MAX_MOVES = 64


@dataclass(frozen=True, slots=True)
class Passed:
    """A step that a tensor went through.

    Attributes:
        step: The step.
        moves: The operators between the step and the reader, other than those that hand on each value in its place. 0
            for a step with one scale, which commutes with them: the result is the same on either side.
    """

    step: Step
    moves: int


def reading(side: Side, value: Value | None) -> tuple[Passed, ...]:
    """Return the steps that ``value`` went through, the nearest first, up to an operator that computes something.

    A step that repeats the one next to it counts once: quantizing twice with the same constants is quantizing once.
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
    """Return whether a pair with one scale gives the same on either side of a node.

    Of operators that move values, and of Relu: rounding is monotonic, and 0 is one of its results.
    """
    return ops.moves_codes(node) or ops.traits(node).passes_values or node.is_op("Relu")


def computes(site: Site) -> bool:
    """Return whether the reader at a site does something with the values, other than to move them."""
    return site.node is None or site.index != 0 or not commutes(site.node)
