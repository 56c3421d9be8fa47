"""Find dead code: nodes and constants that have no reader left after some uses are removed."""

from collections.abc import Iterator

import onnx

from qdqtool.models.graph.edits.edit import Edit, RemoveInitializer, RemoveNode
from qdqtool.models.graph.edits.surgeon import apply_edits
from qdqtool.models.graph.index.view import GraphView, NodeView, Value
from qdqtool.models.graph.model import Model, Transformed
from qdqtool.models.graph.scope import node_bodies, walk


class DeadCode:
    """Collects uses that edits remove, and finds code that becomes dead. Code that was dead before stays."""

    def __init__(self, view: GraphView) -> None:
        self._view = view
        self._gone: set[tuple[NodeView, int]] = set()
        self._removed: set[NodeView] = set()
        self._waiting: list[Value] = []
        self._kept = {value for value in view.values() if value.is_output}

    def suspect(self, value: Value) -> None:
        """Note that ``value`` lost readers before the index was made."""
        self._waiting.append(value)

    def keep(self, value: Value) -> None:
        """Note that an edit adds a reader of ``value``."""
        self._kept.add(value)

    def drop_use(self, node: NodeView, index: int) -> None:
        """Note that input ``index`` of ``node`` no longer reads its tensor."""
        value = node.input(index)
        if value is not None:
            self._gone.add((node, index))
            self._waiting.append(value)

    def drop_node(self, node: NodeView) -> None:
        """Note that the caller removes ``node``: the node and its subgraphs no longer read their inputs."""
        self._removed.add(node)
        for inner in (node, *self._in_bodies(node)):
            for index in range(len(inner.proto.input)):
                self.drop_use(inner, index)

    def edits(self) -> list[Edit]:
        """Return the edits that remove everything without a reader."""
        found: dict[Value | NodeView, Edit] = {}
        while self._waiting:
            value = self._waiting.pop()
            node = value.producer
            if not self._is_dead(value):
                continue
            if value.initializer is not None:
                found[value] = RemoveInitializer(value.scope.path, value.name)
            elif node is not None and node not in self._removed and all(map(self._is_dead, node.present_outputs)):
                found[node] = RemoveNode(node.scope.path, node.key)
                self.drop_node(node)
        return list(found.values())

    def _is_dead(self, value: Value) -> bool:
        return value not in self._kept and all((use.node, use.index) in self._gone for use in value.uses)

    def _in_bodies(self, owner: NodeView) -> Iterator[NodeView]:
        for scope in self._view.scopes:
            if any(around.owner is owner for around in scope.outwards()):
                yield from scope.nodes


def without_unused(before: GraphView, after: Model) -> Transformed[tuple[str, ...]]:
    """Remove from ``after`` each value that had a reader in ``before`` and has none now; the report lists the names.

    Values without a reader in ``before`` stay. Graph inputs stay too, and so do values that training information or
    annotations name.
    """
    read = {(value.scope.path, value.name) for value in before.values() if value.uses}
    mentioned = _mentioned(after.proto)
    removed: list[str] = []
    while True:
        view = GraphView(after)
        dead = {
            value
            for value in view.values()
            if not value.uses and not value.is_output and (value.scope.path, value.name) in read
            if value.name not in mentioned
        }
        edits = list(_removals(view, dead))
        if not edits:
            return Transformed(after, tuple(removed))
        removed += [next(filter(None, edit.node)) if isinstance(edit, RemoveNode) else edit.name for edit in edits]
        after = apply_edits(after, edits)
        read |= {(value.scope.path, value.name) for value in view.values() if value.uses}


def _removals(view: GraphView, dead: set[Value]) -> Iterator[RemoveInitializer | RemoveNode]:
    for value in view.values():
        if value in dead and value.initializer is not None and not value.is_input:
            yield RemoveInitializer(value.scope.path, value.name)
    for node in view.nodes():
        if _is_dead(node, dead):
            yield RemoveNode(node.scope.path, node.key)


def _is_dead(node: NodeView, dead: set[Value]) -> bool:
    if next(node_bodies(node.proto), None) is not None:
        return False
    made = [node.scope.values[name] for name in node.key if name]
    return any(value in dead for value in made) and all(not value.uses and not value.is_output for value in made)


def _mentioned(proto: onnx.ModelProto) -> set[str]:
    """Return names that are referenced outside nodes, by training information and annotations."""
    names: set[str] = set()
    for training in proto.training_info:
        graphs = (training.initialization, training.algorithm)
        names |= {name for graph in graphs for node in graph.node for name in node.input}
        names |= {binding.key for binding in (*training.initialization_binding, *training.update_binding)}
    for _, container in walk(proto):
        for annotation in container.quantization_annotation if isinstance(container, onnx.GraphProto) else ():
            names |= {entry.value for entry in annotation.quant_parameter_tensor_names}
    return names
