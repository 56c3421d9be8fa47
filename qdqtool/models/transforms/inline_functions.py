"""Inline local functions: each call gets its own nodes and tensors, and therefore its own scales."""

import hashlib
from collections import Counter
from collections.abc import Callable, Iterator, Mapping

import onnx
from onnx import AttributeProto, checker, inliner

from qdqtool.models.graph.index.calls import MANY, call_counts
from qdqtool.models.graph.index.view import GraphView, NodeView
from qdqtool.models.graph.model import Model, Transformed, opset_version
from qdqtool.models.graph.scope import ScopePath, all_nodes, display, function_path, node_bodies
from qdqtool.models.plugins import stand_in_paths
from qdqtool.models.report import InlinedFunction

SHARED_BYTES = 1024
"""Equal constants of at least this size are stored once; otherwise each inlined call would have its own copy."""


MOST_NODES = 1 << 16
"""Inlining may add at most this many nodes; the number can explode if functions call functions."""


def inline_repeated(
    model: Model, is_quantizable: Callable[[NodeView], bool]
) -> Transformed[tuple[InlinedFunction, ...]]:
    """Inline the local functions that are called more than once and contain an operator to be quantized.

    A function is not inlined if it calls itself, or if it imports other opset versions than the model. No function is
    inlined if inlining fails or would add more than :data:`MOST_NODES` nodes.
    """
    view = GraphView(model)
    counts = call_counts(view)
    reaching = _reaching(view, is_quantizable)
    found = {
        path: count for path, count in counts.items() if 1 < count < MANY and path in reaching and _fits(view, path)
    }
    return _inlined_within_bounds(model, view, found)


def inline_called(model: Model) -> Transformed[tuple[InlinedFunction, ...]]:
    """Inline every local function that is called, with the exceptions of :func:`inline_repeated`."""
    view = GraphView(model)
    found = {path: count for path, count in call_counts(view).items() if 0 < count < MANY and _fits(view, path)}
    return _inlined_within_bounds(model, view, found)


def _inlined_within_bounds(
    model: Model, view: GraphView, found: Mapping[ScopePath, int]
) -> Transformed[tuple[InlinedFunction, ...]]:
    nodes = sum(count * len(list(_nodes(view.scope(path).container))) for path, count in found.items())
    return _inlined(model, found if nodes <= MOST_NODES else {})


def inline_like(quantized: Model, baseline: Model) -> Transformed[tuple[InlinedFunction, ...]]:
    """Inline the functions of a baseline that its quantized form lacks, so that the tensors of both match."""
    kept = {function_path(function) for function in quantized.proto.functions}
    gone = [function_path(function) for function in baseline.proto.functions if function_path(function) not in kept]
    counts = call_counts(GraphView(baseline)) if gone else {}
    found = {path: counts[path] for path in gone if 0 < counts[path] < MANY}
    return _inlined(baseline, found)


def _reaching(view: GraphView, is_quantizable: Callable[[NodeView], bool]) -> set[ScopePath]:
    """Return the scopes that contain such an operator, or call a function that contains one."""
    waiting = [node.scope for node in view.nodes() if is_quantizable(node)]
    found: set[ScopePath] = set()
    while waiting:
        path = waiting.pop().path[:1]
        if path not in found:
            found.add(path)
            waiting += [node.scope for node in view.scope(path).calls]
    return found


def _fits(view: GraphView, path: ScopePath) -> bool:
    """Return whether a function may be inlined: no plugin replaces it, and its overloads import the model's opsets."""
    proto, function = view.model.proto, view.scope(path).container
    assert isinstance(function, onnx.FunctionProto)
    named = [each for each in proto.functions if (each.domain, each.name) == (function.domain, function.name)]
    versions = (entry.version == opset_version(proto, entry.domain) for each in named for entry in each.opset_import)
    return path not in stand_in_paths(proto) and all(versions)


def _inlined(model: Model, found: Mapping[ScopePath, int]) -> Transformed[tuple[InlinedFunction, ...]]:
    """Inline the functions in ``found`` (with their numbers of calls), or no function if a call does not fit."""
    functions = [function for function in model.proto.functions if function_path(function) in found]
    # onnx selects functions by domain and name: all overloads of a name are inlined together.
    names = sorted({(function.domain, function.name) for function in functions})
    try:
        proto = inliner.inline_selected_functions(model.proto, names) if names else None
    # Examples: a call with more inputs than the function has, or a function that calls itself.
    except (RuntimeError, ValueError, IndexError, checker.ValidationError):
        proto = None
    if proto is None:
        return Transformed(model, ())
    _name_apart(proto)
    _share_constants(proto.graph)
    done = (InlinedFunction(function=display(path), calls=calls) for path, calls in found.items())
    return Transformed(model.fork(proto), tuple(done))


def _name_apart(proto: onnx.ModelProto) -> None:
    """Make node names unique: after inlining, the nodes of a function occur once for each call."""
    nodes = [node for node in all_nodes(proto) if node.name]
    taken = {node.name for node in nodes}
    seen: Counter[str] = Counter()
    for node in nodes:
        seen[node.name] += 1
        if seen[node.name] > 1:
            base, number = node.name, seen[node.name]
            while f"{base}_{number}" in taken:
                number += 1
            node.name = f"{base}_{number}"
            taken.add(node.name)


def _share_constants(graph: onnx.GraphProto) -> None:
    """Make all readers of equal Constant nodes read the first one, and remove the others."""
    first: dict[tuple[object, ...], str] = {}
    same: dict[str, str] = {}
    for node in graph.node:
        content = _content(node)
        if content is not None:
            known = first.setdefault(content, node.output[0])
            if known != node.output[0]:
                same[node.output[0]] = known
    if any(value.name in same for value in graph.output):
        return
    for node in _nodes(graph):
        node.input[:] = [same.get(name, name) for name in node.input]
    kept = [node for node in graph.node if not (node.output and node.output[0] in same)]
    del graph.node[:]
    graph.node.extend(kept)


def _content(node: onnx.NodeProto) -> tuple[object, ...] | None:
    """Return a key that is the same for equal large constants, or None for any other node."""
    if node.op_type != "Constant" or len(node.attribute) != 1 or node.attribute[0].type != AttributeProto.TENSOR:
        return None
    tensor = node.attribute[0].t
    # A tensor with external data has no raw data.
    if len(tensor.raw_data) < SHARED_BYTES:
        return None
    return tensor.data_type, tuple(tensor.dims), hashlib.sha256(tensor.raw_data).digest()


def _nodes(graph: onnx.GraphProto | onnx.FunctionProto) -> Iterator[onnx.NodeProto]:
    """Yield every node of a graph or function, including nodes of subgraphs."""
    for node in graph.node:
        yield node
        for _, body in node_bodies(node):
            yield from _nodes(body)
