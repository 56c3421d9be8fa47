"""The layers of a plan: nodes that are quantized or stay in float together, and the cost to compute them.

A node is quantized as a whole: its activation and its weight. Nodes that one kernel computes on a GPU belong together:
an Add with the layer whose result it adds, and products that read the same tensor, such as those for queries, keys and
values.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from qdqtool.models import ops
from qdqtool.models.graph.index.model_index import ModelIndex
from qdqtool.models.graph.index.structure import NodePatterns
from qdqtool.models.graph.index.view import NodeView, Value
from qdqtool.models.graph.scope import ScopePath
from qdqtool.models.ops.support.weights import elements, estimated_macs
from qdqtool.models.plan import Placement, QuantPlan, UseRef

_NodeId = tuple[ScopePath, tuple[str, ...]]


@dataclass(frozen=True, slots=True, eq=False)
class Layer:
    """Nodes that are quantized or stay in float together.

    Attributes:
        nodes: The nodes, in the order of the graph; the first one that has a weight gives the layer its name.
        sites: Numbers of the pairs of the nodes in the plan.
    """

    nodes: tuple[NodeView, ...]
    sites: tuple[int, ...]

    @property
    def leader(self) -> NodeView:
        """The node that gives the layer its name."""
        return next((node for node in self.nodes if ops.product(node) is not None), self.nodes[0])


def by_reader(plan: QuantPlan, index: ModelIndex) -> QuantPlan:
    """Return the plan with a separate placement for each node that reads a dequantized tensor.

    The model still computes the same numbers, and each of these nodes can be switched by itself.
    """
    nodes = {(node.scope.path, node.key): node for node in index.view.nodes()}
    return QuantPlan(tuple(each for placement in plan for each in _divided(placement, nodes)))


def _divided(placement: Placement, nodes: Mapping[_NodeId, NodeView]) -> Iterator[Placement]:
    slot = placement.slot
    if slot.uses is None or len(slot.uses) < 2:
        yield placement
        return
    parts: dict[_NodeId, list[UseRef]] = {}
    for use in slot.uses:
        reader = next(ops.computing_nodes(nodes[use.scope, use.node]), nodes[use.scope, use.node])
        parts.setdefault((reader.scope.path, reader.key), []).append(use)
    for uses in parts.values():
        yield replace(placement, slot=replace(slot, uses=tuple(uses)))


def layers_of(plan: QuantPlan, index: ModelIndex) -> tuple[Layer, ...]:
    """Return the layers of a plan, in the order of the graph."""
    readers = [readers_of(placement, index) for placement in plan]
    groups = _Groups()
    for nodes in readers:
        groups.join(nodes)
    with_sites = {node for nodes in readers for node in nodes}
    for nodes in _fused(plan, readers, index, with_sites):
        groups.join(nodes)
    sites: dict[NodeView, list[int]] = {}
    for number, nodes in enumerate(readers):
        sites.setdefault(groups.root(nodes[0]), []).append(number)
    members: dict[NodeView, list[NodeView]] = {}
    for node in index.view.nodes():
        if node in with_sites:
            members.setdefault(groups.root(node), []).append(node)
    return tuple(Layer(tuple(nodes), tuple(sites[root])) for root, nodes in members.items())


def readers_of(placement: Placement, index: ModelIndex) -> list[NodeView]:
    """Return the nodes that compute with a dequantized tensor, or the node that makes it if it is only an output."""
    value = index.value(placement.slot)
    wanted = placement.slot.uses
    found = [
        use for use in value.uses if wanted is None or UseRef(use.node.scope.path, use.node.key, use.index) in wanted
    ]
    nodes = [node for use in found for node in ops.computing_nodes(use.node)]
    return nodes or ([value.producer] if value.producer is not None else [use.node for use in value.uses])


def _fused(
    plan: QuantPlan, readers: Iterable[list[NodeView]], index: ModelIndex, with_sites: set[NodeView]
) -> Iterator[list[NodeView]]:
    products: dict[Value, list[NodeView]] = {}
    for placement, nodes in zip(plan, readers, strict=True):
        value = index.value(placement.slot)
        for node in nodes:
            if ops.product(node) is None:
                # An Add: its other operand comes from the layer that it is fused with.
                yield [node, *_layers_added(node, value, with_sites)]
            elif not index.is_constant(value):
                products.setdefault(value, []).append(node)
    for siblings in products.values():
        if all(ops.product(node) is not None and node.op_type == siblings[0].op_type for node in siblings):
            yield siblings


def _layers_added(node: NodeView, quantized: Value, with_sites: set[NodeView]) -> Iterator[NodeView]:
    for position in range(len(node.proto.input)):
        value = node.input(position)
        if value is None or value is quantized or value.producer is None:
            continue
        if value.producer in with_sites and ops.product(value.producer) is not None:
            yield value.producer


class _Groups:
    """Joins nodes into disjoint groups."""

    def __init__(self) -> None:
        self._parents: dict[NodeView, NodeView] = {}

    def root(self, node: NodeView) -> NodeView:
        """Return the node that represents the group of ``node``."""
        while (parent := self._parents.get(node, node)) is not node:
            node = parent
        return node

    def join(self, nodes: Iterable[NodeView]) -> None:
        roots = [self.root(node) for node in nodes]
        for root in roots[1:]:
            if root is not roots[0]:
                self._parents[root] = roots[0]


def nodes_of(layers: Iterable[Layer]) -> tuple[NodeView, ...]:
    """Return the nodes of some layers."""
    return tuple(node for layer in layers for node in layer.nodes)


def excluding_patterns(layers: Iterable[Layer], index: ModelIndex) -> Mapping[Layer, tuple[str, ...]]:
    """Return patterns for ``--nodes-to-exclude``, by layer, that match the nodes of the layer and no other node."""
    patterns = NodePatterns(index.view)
    return {layer: tuple(map(patterns.pattern, layer.nodes)) for layer in layers}


@dataclass(frozen=True, slots=True)
class Cost:
    """The size of a layer.

    Attributes:
        macs: Multiply-accumulates of one run; an open dimension counts as 1. A node without weights counts 1 for each
            element of its output.
        weights: Elements of its stored weights.
    """

    macs: int
    weights: int


def costs_of(layers: Sequence[Layer], index: ModelIndex) -> tuple[Cost, ...]:
    """Return the cost of each layer."""
    totals = (
        [sum(count(node, index) for node in layer.nodes) for count in (estimated_macs, _weights)] for layer in layers
    )
    return tuple(Cost(macs, weights) for macs, weights in totals)


def size_shares(layers: Sequence[Layer], index: ModelIndex) -> Mapping[Layer, tuple[float, float]]:
    """Return the share of each layer in the multiply-accumulates, and in the weights, of all layers."""
    costs = costs_of(layers, index)
    macs, weights = sum(cost.macs for cost in costs) or 1, sum(cost.weights for cost in costs) or 1
    return {layer: (cost.macs / macs, cost.weights / weights) for layer, cost in zip(layers, costs, strict=True)}


def shares(costs: Sequence[Cost]) -> tuple[float, ...]:
    """Return the cost share of each layer: the mean of its shares in multiply-accumulates, weights and layers.

    The third share represents the fixed cost of a kernel: its launch, and the change of types around it.
    """
    even = [1 / len(costs)] * len(costs)
    macs, weights = shares_of([cost.macs for cost in costs]), shares_of([cost.weights for cost in costs])
    return tuple(sum(each) / 3 for each in zip(macs, weights, even, strict=True))


def shares_of(sizes: Sequence[int]) -> Sequence[float]:
    """Return the share of each size in the sum, or equal shares if all sizes are 0."""
    whole = sum(sizes)
    return [size / whole if whole else 1 / len(sizes) for size in sizes]


def _weights(node: NodeView, index: ModelIndex) -> int:
    values = (node.input(position) for position in range(len(node.proto.input)))
    return sum(elements(value, index) for value in values if value is not None and index.is_constant(value))
