"""Cut a main graph into parts: before each weighted operator, or so that the weights of each part stay below a limit.

A node that depends on no input is repeated in every part that needs it: its result may be as large as the weights.
"""

from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

import onnx

from qdqtool.models.graph.edits.copy_changes import names_read
from qdqtool.models.graph.edits.edit import NodeKey

BEFORE = -1
"""The number that :attr:`Parts.made` has for inputs: they are known before the first part."""


@dataclass(slots=True, eq=False)
class GraphPart:
    """Nodes that run together.

    Attributes:
        nodes: The nodes, in order, including the nodes of constants that they need.
        kept: Tensors that this part makes and a later part reads.
        unread: Tensors that no later part reads; they can be dropped after this part.
    """

    nodes: list[onnx.NodeProto] = field(default_factory=list)
    kept: set[str] = field(default_factory=set)
    unread: set[str] = field(default_factory=set)


@dataclass(frozen=True, slots=True, eq=False)
class Parts:
    """A graph that is cut into parts.

    Attributes:
        parts: The parts, in order. They contain only nodes that wanted tensors depend on.
        made: For each tensor that depends on an input, by name: the number of the part that makes it.
    """

    parts: tuple[GraphPart, ...]
    made: Mapping[str, int]


def cut_graph(graph: onnx.GraphProto, products: Mapping[NodeKey, str], inputs: Iterable[str]) -> Parts:
    """Cut a graph before weighted operators.

    Args:
        graph: The main graph.
        products: Maps the outputs of each weighted operator to the activation that it reads.
        inputs: Names of the inputs that samples provide.

    Returns:
        Parts such that every weighted operator is in a later part than the node that makes its activation.
    """
    cutter = _ByProducts(products, inputs)
    for node in _needed(graph, set(products.values())):
        cutter.add(node)
    # The activation is kept even if no part contains the weighted operator.
    return cutter.result((name, cutter.made.get(name, BEFORE) + 1) for name in products.values())


def cut_by_weights(
    graph: onnx.GraphProto, sizes: Mapping[str, int], limit: int, inputs: Iterable[str], outputs: Sequence[str]
) -> Parts:
    """Cut a graph so that the weights of a part do not exceed a limit.

    Args:
        graph: The main graph.
        sizes: The size of each weight, by name.
        limit: Largest total size of the weights of a part, in the unit of ``sizes``; a single node may exceed it.
        inputs: Names of the inputs that samples provide.
        outputs: Tensors that the caller reads.

    Returns:
        Parts in the order of the graph.
    """
    cutter = _ByWeights(sizes, limit, inputs)
    for node in _needed(graph, set(outputs)):
        cutter.add(node)
    cutter.make_constants(outputs)
    return cutter.result((name, cutter.current + 1) for name in outputs)


def _needed(graph: onnx.GraphProto, wanted: set[str]) -> list[onnx.NodeProto]:
    """Return the nodes that the wanted tensors depend on, in graph order."""
    found = []
    for node in reversed(graph.node):
        if not wanted.isdisjoint(filter(None, node.output)):
            wanted.update(names_read(node))
            found.append(node)
    return found[::-1]


class _Cutter(ABC):
    def __init__(self, inputs: Iterable[str]) -> None:
        self.made = dict.fromkeys(inputs, BEFORE)
        self._last: dict[str, int] = {}
        self._constant: dict[str, onnx.NodeProto] = {}
        self._parts: list[GraphPart] = [GraphPart()]
        self._held: list[set[str]] = [set()]

    @abstractmethod
    def number(self, node: onnx.NodeProto, ready: int) -> int:
        """Return the number of the part for a node: ``ready``, where all its inputs exist, or a later part."""

    def add(self, node: onnx.NodeProto) -> None:
        read = names_read(node)
        ready = [self.made[name] for name in read if name in self.made]
        if not ready:
            self._constant.update(dict.fromkeys(filter(None, node.output), node))
            return
        number = self.number(node, max(0, *ready))
        while len(self._parts) <= number:
            self._parts.append(GraphPart())
            self._held.append(set())
        self._add_constants(read, number)
        self._parts[number].nodes.append(node)
        for name in read:
            self._note_reading(name, number)
        self.made.update(dict.fromkeys(filter(None, node.output), number))

    def result(self, wanted: Iterable[tuple[str, int]]) -> Parts:
        """Return the parts, with the tensors that can be dropped after each."""
        for name, number in wanted:
            self._note_reading(name, number)
        for name, number in self._last.items():
            if number < len(self._parts):
                self._parts[number].unread.add(name)
        return Parts(tuple(self._parts), self.made)

    def constants_of(self, names: Iterable[str]) -> set[str]:
        """Return these names, and the names of all tensors from which they are computed without an input."""
        found: set[str] = set()
        rest = list(names)
        while rest:
            name = rest.pop()
            if name not in found:
                found.add(name)
                rest += names_read(self._constant[name]) if name in self._constant else ()
        return found

    def _note_reading(self, name: str, number: int) -> None:
        made = self.made.get(name)
        if made is None:
            return
        if BEFORE < made < number:
            self._parts[made].kept.add(name)
        self._last[name] = max(self._last.get(name, 0), number)

    def _add_constants(self, names: Iterable[str], number: int) -> None:
        for name in names:
            node = self._constant.get(name)
            if node is not None and name not in self._held[number]:
                self._held[number].update(node.output)
                self._add_constants(names_read(node), number)
                self._parts[number].nodes.append(node)


class _ByProducts(_Cutter):
    def __init__(self, products: Mapping[NodeKey, str], inputs: Iterable[str]) -> None:
        super().__init__(inputs)
        self._products = products

    def number(self, node: onnx.NodeProto, ready: int) -> int:
        """Return the number of the part for a node. A weighted operator comes in a later part than its activation."""
        activation = self._products.get(tuple(node.output))
        return max(ready, self.made.get(activation or "", BEFORE) + 1)


class _ByWeights(_Cutter):
    def __init__(self, sizes: Mapping[str, int], limit: int, inputs: Iterable[str]) -> None:
        super().__init__(inputs)
        self.current = 0
        self._sizes, self._limit = sizes, limit
        self._weights: set[str] = set()
        self._size = 0

    def number(self, node: onnx.NodeProto, ready: int) -> int:
        """Return the current part, or the next one if the weights of the part would exceed the limit."""
        weights = self.constants_of(names_read(node)) & self._sizes.keys()
        # A node that needs no further weight stays in the part, even if the part is above the limit already.
        if self._weights and weights - self._weights and self._size + self._more(weights) > self._limit:
            self.current, self._weights, self._size = self.current + 1, set(), 0
        self._size += self._more(weights)
        self._weights |= weights
        assert ready <= self.current, "nodes come in the order in which they run"
        return self.current

    def _more(self, weights: set[str]) -> int:
        return sum(self._sizes[name] for name in weights - self._weights)

    def make_constants(self, names: Iterable[str]) -> None:
        """Add the nodes that compute the named tensors to the last part, for tensors that depend on no input."""
        for name in names:
            if name in self._constant:
                self._add_constants([name], self.current)
                self._parts[self.current].kept.add(name)
