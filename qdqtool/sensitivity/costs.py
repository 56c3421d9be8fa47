"""What it costs to compute a unit in float: multiply-accumulates and bytes of weights, counted from shapes."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

from qdqtool import ops
from qdqtool.graph.index.model_index import ModelIndex
from qdqtool.graph.index.view import NodeView, Value
from qdqtool.sensitivity.units import Unit


@dataclass(frozen=True, slots=True)
class Cost:
    """The size of a unit.

    Attributes:
        macs: Multiply-accumulates of one run; an open dimension counts as 1. A node without weights counts one for each
            element of its output.
        weights: Elements of its stored weights.
    """

    macs: int
    weights: int


def costs_of(units: Sequence[Unit], index: ModelIndex) -> tuple[Cost, ...]:
    """Return the cost of each unit."""
    return tuple(_unit_cost(unit, index) for unit in units)


def shares(costs: Sequence[Cost]) -> tuple[float, ...]:
    """Return the share of each unit in the whole: the mean of its shares in multiply-accumulates, weights and units.

    The third one stands for what any kernel costs, however small: a launch, and the change of types around it.
    """
    macs, weights = sum(cost.macs for cost in costs) or 1, sum(cost.weights for cost in costs) or 1
    return tuple((cost.macs / macs + cost.weights / weights + 1 / len(costs)) / 3 for cost in costs)


def _unit_cost(unit: Unit, index: ModelIndex) -> Cost:
    return Cost(sum(_macs(node, index) for node in unit.nodes), sum(_weights(node, index) for node in unit.nodes))


def _macs(node: NodeView, index: ModelIndex) -> int:
    output = node.output()
    elements = _elements(output, index) if output is not None else 1
    return elements * (_terms(node, index) if ops.product(node) is not None else 1)


def _terms(node: NodeView, index: ModelIndex) -> int:
    """Return how many products are summed for one element of the output of a product."""
    weight = node.input(1)
    if weight is None:
        return 1
    product = ops.product(node)
    dims = _known(weight, index)
    layout = product.product_layout(node, dims) if product is not None and dims and all(dims) else None
    if layout is not None:
        return max(math.prod(dims) // max(layout.outputs, 1), 1)
    return dims[-2] if len(dims) > 1 else math.prod(dims)


def _weights(node: NodeView, index: ModelIndex) -> int:
    values = (node.input(position) for position in range(len(node.proto.input)))
    return sum(_elements(value, index) for value in values if value is not None and index.is_constant(value))


def _elements(value: Value, index: ModelIndex) -> int:
    return math.prod(_known(value, index))


def _known(value: Value, index: ModelIndex) -> tuple[int, ...]:
    shape = index.types.shape(value) or ()
    return tuple(extent if isinstance(extent, int) else 1 for extent in shape)
