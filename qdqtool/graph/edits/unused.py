"""What nothing reads any more once some uses are gone: the nodes and constants that only served them."""

from collections.abc import Iterator

from qdqtool.graph.edits.edit import Edit, RemoveInitializer, RemoveNode
from qdqtool.graph.index.view import GraphView, NodeView, Scope, Value


class DeadCode:
    """Collects uses that edits take away, and tells what dies with them. What was dead before stays.

    Args:
        view: The index of the model before the edits.
    """

    def __init__(self, view: GraphView) -> None:
        self._view = view
        self._gone: set[tuple[NodeView, int]] = set()
        self._removed: set[NodeView] = set()
        self._waiting: list[Value] = []
        self._kept = {value for value in view.values() if value.is_output} | returned_from_outside(view)

    def suspect(self, value: Value) -> None:
        """``value`` lost readers before this index was made."""
        self._waiting.append(value)

    def drop_use(self, node: NodeView, index: int) -> None:
        """Input ``index`` of ``node`` no longer reads what it read."""
        value = node.input(index)
        if value is not None:
            self._gone.add((node, index))
            self._waiting.append(value)

    def drop_node(self, node: NodeView) -> None:
        """``node`` goes, with all that it reads by itself and in its bodies. The caller makes that edit."""
        self._removed.add(node)
        for inner in (node, *self._in_bodies(node)):
            for index in range(len(inner.proto.input)):
                self.drop_use(inner, index)

    def edits(self) -> list[Edit]:
        """Remove what nothing reads any more."""
        found: dict[Value | NodeView, Edit] = {}
        while self._waiting:
            value = self._waiting.pop()
            node = value.producer
            if not self._is_dead(value):
                continue
            if value.initializer is not None:
                found[value] = RemoveInitializer(value.scope.path, value.name)
            elif node is not None and node not in self._removed and self._is_useless(node):
                found[node] = RemoveNode(node.scope.path, node.key)
                self.drop_node(node)
        return list(found.values())

    def _is_dead(self, value: Value) -> bool:
        return value not in self._kept and all((use.node, use.index) in self._gone for use in value.uses)

    def _is_useless(self, node: NodeView) -> bool:
        outputs = (node.output(index) for index in range(len(node.proto.output)))
        return all(value is None or self._is_dead(value) for value in outputs)

    def _in_bodies(self, owner: NodeView) -> Iterator[NodeView]:
        for scope in self._view.scopes:
            if any(around.owner is owner for around in _upwards(scope)):
                yield from scope.nodes


def _upwards(scope: Scope | None) -> Iterator[Scope]:
    while scope is not None:
        yield scope
        scope = scope.parent


def returned_from_outside(view: GraphView) -> set[Value]:
    """Tensors that a body returns although a scope around it makes them; they are no uses in the index."""
    found: set[Value] = set()
    for scope in view.scopes:
        for name in scope.output_names():
            value = scope.resolve(name)
            if value is not None and value.scope is not scope:
                found.add(value)
    return found
