"""Cut a main graph into parts, so that what a product reads is known before the product itself runs."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

import onnx

from qdqtool.graph.edits.edit import NodeKey
from qdqtool.running.own_stages import names_read

BEFORE = -1
"""The part behind which inputs are known: none."""


@dataclass(slots=True, eq=False)
class Part:
    """Nodes that run together.

    Attributes:
        nodes: The nodes, in order, with those nodes of constants that they need.
        kept: Tensors that it makes and a later part reads.
        unread: Tensors that no later part reads, so that they can be dropped behind it.
    """

    nodes: list[onnx.NodeProto] = field(default_factory=list)
    kept: set[str] = field(default_factory=set)
    unread: set[str] = field(default_factory=set)


@dataclass(frozen=True, slots=True, eq=False)
class Parts:
    """A graph in parts.

    Attributes:
        parts: The parts, in order. What no product needs is in none of them.
        made: The number of the part behind which a tensor is known; without those that depend on no input.
    """

    parts: tuple[Part, ...]
    made: Mapping[str, int]


def cut_graph(graph: onnx.GraphProto, products: Mapping[NodeKey, str], inputs: Iterable[str]) -> Parts:
    """Cut a graph in front of products.

    Args:
        graph: The main graph.
        products: The activation that each product reads, by the outputs of the product.
        inputs: Names of the inputs that samples provide.

    Returns:
        Parts, such that every product is in a later part than what makes its activation. A node that depends on no
        input is in every part that needs it.
    """
    cutter = _Cutter(products, inputs)
    for node in _needed(graph, set(products.values())):
        cutter.add(node)
    return cutter.result()


def _needed(graph: onnx.GraphProto, wanted: set[str]) -> list[onnx.NodeProto]:
    """Return the nodes that the wanted tensors depend on, in order."""
    found = []
    for node in reversed(graph.node):
        if not wanted.isdisjoint(filter(None, node.output)):
            wanted.update(names_read(node))
            found.append(node)
    return found[::-1]


class _Cutter:
    def __init__(self, products: Mapping[NodeKey, str], inputs: Iterable[str]) -> None:
        self._products = products
        self._made = dict.fromkeys(inputs, BEFORE)
        self._last: dict[str, int] = {}
        self._constant: dict[str, onnx.NodeProto] = {}
        self._parts: list[Part] = [Part()]
        self._held: list[set[str]] = [set()]

    def add(self, node: onnx.NodeProto) -> None:
        read = list(names_read(node))
        ready = [self._made[name] for name in read if name in self._made]
        if not ready:
            self._constant.update(dict.fromkeys(filter(None, node.output), node))
            return
        activation = self._products.get(tuple(node.output))
        number = max(0, *ready, self._made.get(activation or "", BEFORE) + 1)
        while len(self._parts) <= number:
            self._parts.append(Part())
            self._held.append(set())
        self._add_constants(read, number)
        self._parts[number].nodes.append(node)
        for name in read:
            self._note_reading(name, number)
        self._made.update(dict.fromkeys(filter(None, node.output), number))

    def result(self) -> Parts:
        for name in self._products.values():
            # What a product reads is kept even where the product itself is in no part.
            self._note_reading(name, self._made.get(name, BEFORE) + 1)
        for name, number in self._last.items():
            if number < len(self._parts):
                self._parts[number].unread.add(name)
        return Parts(tuple(self._parts), self._made)

    def _note_reading(self, name: str, number: int) -> None:
        made = self._made.get(name)
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
