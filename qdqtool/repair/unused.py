"""Taking out what an edit left behind: constants and nodes that were read before it and are not any more."""

from collections.abc import Iterator

import onnx

from qdqtool.graph.edits.edit import Edit, RemoveInitializer, RemoveNode
from qdqtool.graph.edits.surgeon import apply_edits
from qdqtool.graph.index.view import GraphView, NodeView, Value
from qdqtool.graph.model import Model
from qdqtool.graph.scope import ScopePath, node_bodies, walk
from qdqtool.graph.transformed import Transformed


def sweep(before: GraphView, after: Model) -> Transformed[tuple[str, ...]]:
    """Remove from ``after`` what only ``before`` still read; the report names what was removed.

    What nothing read before stays, and so do graph inputs and what training information or annotations name.
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
        removed += [_name(edit) for edit in edits]
        after = apply_edits(after, edits)
        read |= {(value.scope.path, value.name) for value in view.values() if value.uses}


def _removals(view: GraphView, dead: set[Value]) -> Iterator[Edit]:
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


def _name(edit: Edit) -> str:
    return edit.name if isinstance(edit, RemoveInitializer) else _first_output(edit)


def _first_output(edit: Edit) -> str:
    assert isinstance(edit, RemoveNode)
    return next(name for name in edit.node if name)


def _mentioned(proto: onnx.ModelProto) -> set[str]:
    """Names that something else than a node reads."""
    names: set[str] = set()
    for training in proto.training_info:
        graphs = (training.initialization, training.algorithm)
        names |= {name for graph in graphs for node in graph.node for name in node.input}
        names |= {binding.key for binding in (*training.initialization_binding, *training.update_binding)}
    containers: list[tuple[ScopePath, onnx.GraphProto | onnx.FunctionProto]] = list(walk(proto))
    for _, container in containers:
        if isinstance(container, onnx.GraphProto):
            names |= {
                entry.value
                for annotation in container.quantization_annotation
                for entry in annotation.quant_parameter_tensor_names
            }
    return names
