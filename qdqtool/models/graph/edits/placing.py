"""Place new nodes after their inputs and right before their first use; all other nodes keep their places."""

from collections.abc import Collection, Iterator, Sequence

import onnx

from qdqtool.models.graph.edits.batch import EditError
from qdqtool.models.graph.scope import node_bodies

Container = onnx.GraphProto | onnx.FunctionProto


def add_in_place(container: Container, new: Sequence[onnx.NodeProto], moved: Collection[int]) -> None:
    """Add nodes to a scope and keep its nodes in topological order.

    A new node is placed right before the first node that reads one of its outputs, itself or in a body; a node that no
    other reads is placed at the end. Existing nodes keep their places, unless a new node, or one of ``moved``, reads
    their output and comes before them.

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
    """Reorder the nodes of a scope to ``order``, a permutation of their positions."""
    if list(order) == sorted(order):
        return
    # Sorting a repeated field in place moves the messages; deleting and adding them again would copy each node with
    # its bodies.
    rank = {position: place for place, position in enumerate(order)}
    positions = iter(range(len(order)))
    container.node.sort(key=lambda _: rank[next(positions)])


def free_names(graph: onnx.GraphProto) -> set[str]:
    """Return the names that a body reads from enclosing scopes."""
    read = {name for node in graph.node for name in names_read(node)}
    read |= {output.name for output in graph.output}
    defined = {name for node in graph.node for name in node.output}
    defined |= {value.name for value in graph.input}
    defined |= {tensor.name for tensor in graph.initializer}
    defined |= {sparse.values.name for sparse in graph.sparse_initializer}
    return read - defined


def names_read(node: onnx.NodeProto) -> list[str]:
    """Return the names that a node reads from its scope, itself or in its bodies."""
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
        """Place a node, and before it the nodes it waits for: depth first, without recursion."""
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
        """Yield the nodes that must come before. For a node that was not touched, only new nodes can be missing."""
        for name in names_read(self._nodes[index]):
            maker = self._makers.get(name)
            if maker is not None and (early or index in self._free or maker >= self._count):
                yield maker
