"""Reduce the bodies of control-flow nodes and the calls of local functions."""

import copy

import onnx
from onnx import checker, inliner

from qdqtool.jobs.reduction.minimal_subset import minimal_subset
from qdqtool.jobs.reduction.search import Search
from qdqtool.jobs.reduction.subgraph import Subgraphs, pruned, with_proto
from qdqtool.models.graph.index.calls import MANY, call_counts
from qdqtool.models.graph.index.view import GraphView, NodeView, Scope
from qdqtool.models.graph.io.copying import copy_fields
from qdqtool.models.graph.model import Model
from qdqtool.models.graph.scope import ScopePath, walk

_MOST_NODES = MANY - 1
"""Functions that would become more nodes than this are not inlined."""


def inline_functions(search: Search) -> bool:
    """Replace the calls of local functions by their nodes; return whether the result fails alike."""
    model = search.best
    if not model.proto.functions or _inlined_nodes(model) > _MOST_NODES:
        return False
    try:
        proto = inliner.inline_local_functions(model.proto)
    except (checker.ValidationError, RuntimeError, ValueError):
        # A model that onnx refuses can still be reduced.
        return False
    return search.accepts(with_proto(model, pruned(proto, search.kept_unused)))


def _inlined_nodes(model: Model) -> int:
    """Return the number of nodes after inlining, which is very large if a function calls itself."""
    view = GraphView(model)
    return sum(count * max(len(view.scope(path).nodes), 1) for path, count in call_counts(view).items())


def take_a_body(search: Search) -> bool:
    """Make the body of a node the whole model; return whether a body fails alike."""
    graph = Subgraphs(search.best, search.kept_unused)
    bodies = [scope for scope in graph.index.view.scopes if scope.parent is graph.index.view.main]
    return any(search.accepts(_as_model(graph, body)) for body in bodies)


def keep_few_body_nodes(search: Search) -> None:
    """Remove nodes from bodies. Outputs of removed nodes that other nodes read become inputs of the main graph."""
    graph = Subgraphs(search.best, search.kept_unused)
    inner = [node for node in graph.index.view.nodes() if node.scope.parent is not None]
    items = [node for node in inner if not _stands_in(node)]
    if items:
        minimal_subset(items, lambda kept: search.accepts(_with_body_nodes(graph, items, kept)))


def _stands_in(node: NodeView) -> bool:
    """Return whether a node only passes a tensor of another scope to an output; such a node cannot become smaller."""
    value = node.input(0)
    return node.is_op("Identity") and value is not None and value.scope is not node.scope


def _as_model(graph: Subgraphs, body: Scope) -> Model | None:
    assert isinstance(body.container, onnx.GraphProto)
    proto = onnx.ModelProto()
    copy_fields(graph.model.proto, proto, "graph")
    proto.ClearField("training_info")
    proto.graph.CopyFrom(body.container)
    if not proto.graph.name:
        proto.graph.name = graph.model.proto.graph.name
    captured = [value for value in graph.index.view.main.values.values() if value.name in _captured(body)]
    for name in (*body.input_names(), *body.output_names()):
        if not _declare(graph, proto, body, name):
            return None
    for value in captured:
        if value.initializer is not None:
            proto.graph.initializer.append(value.initializer)
        elif (kind := graph.index.types.type_proto(value)) is not None:
            proto.graph.input.add(name=value.name, type=kind)
        else:
            return None
    # A body without nodes returns tensors of its owner.
    return with_proto(graph.model, pruned(proto, graph.kept_unused)) if proto.graph.node else None


def _captured(body: Scope) -> set[str]:
    """Return the names of main-graph tensors that a body, or a body nested in it, reads."""
    assert isinstance(body.container, onnx.GraphProto)
    inner = onnx.ModelProto(graph=body.container)
    read = {name for _, container in walk(inner) for node in container.node for name in node.input}
    read |= {value.name for value in body.container.output}
    return read - body.values.keys()


def _declare(graph: Subgraphs, proto: onnx.ModelProto, body: Scope, name: str) -> bool:
    """Give an input or output of a body its inferred type; return whether the type is known."""
    value = body.resolve(name)
    kind = graph.index.types.type_proto(value) if value is not None else None
    for info in (*proto.graph.input, *proto.graph.output):
        if info.name == name and kind is not None:
            info.type.CopyFrom(kind)
    return kind is not None


def _with_body_nodes(graph: Subgraphs, items: list[NodeView], kept: list[NodeView]) -> Model | None:
    gone: dict[ScopePath, list[NodeView]] = {}
    keys = {(node.scope.path, node.index) for node in kept}
    for node in items:
        if (node.scope.path, node.index) not in keys:
            gone.setdefault(node.scope.path, []).append(node)
    proto = copy.deepcopy(graph.model.proto)
    # The paths are those of the original model: an owner keeps its outputs.
    for path, container in list(walk(proto)):
        removed = gone.get(path, [])
        for node in reversed(removed):
            del container.node[node.index]
        if not all(_feed_outputs(graph, proto, container, node) for node in removed):
            return None
    return with_proto(graph.model, pruned(proto, graph.kept_unused))


def _feed_outputs(
    graph: Subgraphs, proto: onnx.ModelProto, container: onnx.GraphProto | onnx.FunctionProto, node: NodeView
) -> bool:
    """Make the outputs of a removed node inputs of the main graph; return whether their types are known."""
    for position in range(len(node.proto.output)):
        value = node.output(position)
        if value is None or not (value.uses or value.is_output):
            continue
        kind = graph.index.types.type_proto(value)
        if kind is None:
            return False
        # ONNX requires that nodes in a body make its outputs.
        name = f"{value.name}_given" if value.is_output else value.name
        if value.is_output:
            container.node.insert(0, onnx.helper.make_node("Identity", [name], [value.name]))
        proto.graph.input.add(name=name, type=kind)
    return True
