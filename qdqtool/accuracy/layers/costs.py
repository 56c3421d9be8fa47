"""What it costs to compute a unit in float or in the fallback format: multiply-accumulates and weights, from shapes."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

from qdqtool.accuracy.layers.units import Unit
from qdqtool.models.graph.index.model_index import ModelIndex
from qdqtool.models.graph.index.view import NodeView, Value
from qdqtool.models.ops.support.weights import multiply_accumulates


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


@dataclass(frozen=True, slots=True, kw_only=True)
class FormatBits:
    """The bits of a number in each format that a unit may have.

    Attributes:
        quantized: In the format of the plan.
        fallback: In the fallback format.
        unquantized: In float.
        activations: Whether activations are quantized as well, so that two formats side by side take a change of types.
    """

    quantized: int
    fallback: int
    unquantized: int
    activations: bool


def costs_of(units: Sequence[Unit], index: ModelIndex) -> tuple[Cost, ...]:
    """Return the cost of each unit."""
    return tuple(_unit_cost(unit, index) for unit in units)


def shares(costs: Sequence[Cost]) -> tuple[float, ...]:
    """Return the share of each unit in the whole: the mean of its shares in multiply-accumulates, weights and units.

    The third one stands for what any kernel costs, however small: a launch, and the change of types around it.
    """
    even = [1 / len(costs)] * len(costs)
    macs, weights = _shares([cost.macs for cost in costs]), _shares([cost.weights for cost in costs])
    return tuple(sum(each) / 3 for each in zip(macs, weights, even, strict=True))


def fallback_shares(costs: Sequence[Cost], bits: FormatBits) -> tuple[float, ...]:
    """Return what each unit costs in the fallback format, where :func:`shares` says what it costs in float.

    Its multiply-accumulates and weights cost as much of the step to float as it has more bits, one at least. The third
    share, for the change of types, is that of a float unit where activations are quantized, and 0 where they are float.
    """
    more = max(bits.fallback - bits.quantized, 1)
    part = more / max(bits.unquantized - bits.quantized, more + 1)
    changes = 1 / len(costs) if bits.activations and costs else 0.0
    macs, weights = _shares([cost.macs for cost in costs]), _shares([cost.weights for cost in costs])
    return tuple((part * (mac + weight) + changes) / 3 for mac, weight in zip(macs, weights, strict=True))


def _shares(sizes: Sequence[int]) -> Sequence[float]:
    whole = sum(sizes)
    return [size / whole if whole else 1 / len(sizes) for size in sizes]


def _unit_cost(unit: Unit, index: ModelIndex) -> Cost:
    return Cost(sum(_macs(node, index) for node in unit.nodes), sum(_weights(node, index) for node in unit.nodes))


def _macs(node: NodeView, index: ModelIndex) -> int:
    counted = multiply_accumulates(node, lambda value: _known(value, index))
    output = node.output()
    if counted is None:
        return _elements(output, index) if output is not None else 1
    return counted


def _weights(node: NodeView, index: ModelIndex) -> int:
    values = (node.input(position) for position in range(len(node.proto.input)))
    return sum(_elements(value, index) for value in values if value is not None and index.is_constant(value))


def _elements(value: Value, index: ModelIndex) -> int:
    return math.prod(_known(value, index))


def _known(value: Value, index: ModelIndex) -> tuple[int, ...]:
    shape = index.types.shape(value) or ()
    return tuple(extent if isinstance(extent, int) else 1 for extent in shape)
