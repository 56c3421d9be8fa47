"""Where nodes stand: new ones after what they read and right before their first use, all others as they stood."""

from collections.abc import Collection, Iterator, Sequence

import onnx

from qdqtool.graph.edits.batch import EditError
from qdqtool.graph.scope import node_bodies

Container = onnx.GraphProto | onnx.FunctionProto


def add_in_place(container: Container, new: Sequence[onnx.NodeProto], moved: Collection[int]) -> None:
    """Add nodes to a scope so that its nodes stay in topological order.

    A new node stands right before the first node that reads one of its outputs, in a body or by itself; one that no
    node reads stands at the end. A node that stood there keeps its place, unless a new node or one that has ``moved``
    reads what it makes and comes before it.

    Args:
        container: The scope; its nodes are there without the new ones.
        new: The nodes to add.
        moved: Positions of the nodes whose inputs were changed, in themselves or in their bodies.

    Raises:
        EditError: The nodes form a cycle.
    """
    count = len(container.node)
    container.node.extend(new)
    nodes = list(container.node)
    order = _Order(nodes, count, set(moved)).run()
    rearrange(container, order)


def rearrange(container: Container, order: Sequence[int]) -> None:
    """Bring the nodes of a scope into ``order``, a permutation of their positions."""
    if list(order) == sorted(order):
        return
    rank = {position: place for place, position in enumerate(order)}
    positions = iter(range(len(order)))
    container.node.sort(key=lambda _: rank[next(positions)])


def free_names(graph: onnx.GraphProto) -> set[str]:
    """Names that a body reads from the scopes around it."""
    read = {name for node in graph.node for name in names_read(node)}
    read |= {output.name for output in graph.output}
    defined = {name for node in graph.node for name in node.output}
    defined |= {value.name for value in graph.input}
    defined |= {tensor.name for tensor in graph.initializer}
    defined |= {sparse.values.name for sparse in graph.sparse_initializer}
    return read - defined


def names_read(node: onnx.NodeProto) -> list[str]:
    """Names that a node reads from its scope, by itself or in its bodies."""
    names = [name for name in node.input if name]
    for _, graph in node_bodies(node):
        names += sorted(free_names(graph))
    return names


class _Order:
    def __init__(self, nodes: list[onnx.NodeProto], count: int, moved: set[int]) -> None:
        self._nodes = nodes
        self._count = count
        self._free = moved | set(range(count, len(nodes)))
        self._makers = {name: index for index, node in enumerate(nodes) for name in node.output if name}
        self._done: dict[int, None] = {}

    def run(self) -> list[int]:
        for index in range(len(self._nodes)):
            self._put(index)
        return list(self._done)

    def _put(self, index: int) -> None:
        """Put a node, and before it those it waits for, depth first without recursion."""
        if index in self._done:
            return
        stack = [(index, self._awaited(index, early=False))]
        open_nodes = {index}
        while stack:
            current, awaited = stack[-1]
            maker = next(awaited, None)
            if maker is None:
                stack.pop()
                open_nodes.discard(current)
                self._done[current] = None
            elif maker in open_nodes:
                raise EditError(f"the edits make a cycle through tensor '{self._nodes[maker].output[0]}'")
            elif maker not in self._done:
                stack.append((maker, self._awaited(maker, early=True)))
                open_nodes.add(maker)

    def _awaited(self, index: int, *, early: bool) -> Iterator[int]:
        """The nodes that must stand before; of a node that stayed in its place, only new ones can be missing."""
        for name in names_read(self._nodes[index]):
            maker = self._makers.get(name)
            if maker is not None and (early or index in self._free or maker >= self._count):
                yield maker
