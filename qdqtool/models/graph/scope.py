"""Names of scopes: the main graph, a subgraph of a control-flow node, a local function.

A scope path is a tuple. It is empty for the main graph and begins with the id of a local function. Each subgraph adds a
segment: the first output name of the owning node, and the attribute with the subgraph. Node names are not used, because
models may leave them empty.
"""

from collections.abc import Iterator

import onnx

ScopePath = tuple[str, ...]

MAIN: ScopePath = ()


def function_path(function: onnx.FunctionProto) -> ScopePath:
    """Return the scope path of a local function: ``domain::name``, and ``:overload`` if it has one."""
    overload = f":{function.overload}" if function.overload else ""
    return (f"{function.domain}::{function.name}{overload}",)


def body_path(owner: ScopePath, node: onnx.NodeProto, attribute: str) -> ScopePath:
    """Return the scope path of a subgraph of ``node``, which is in the scope ``owner``."""
    anchor = next((name for name in node.output if name), node.op_type)
    return (*owner, f"{anchor}.{attribute}")


def display(path: ScopePath) -> str:
    """Return the path for users: empty for the main graph, otherwise the segments joined by ``/``."""
    return "/".join(path)


def node_bodies(node: onnx.NodeProto) -> Iterator[tuple[str, onnx.GraphProto]]:
    """Yield the subgraphs of a node, each with the name of its attribute; graphs in a list get an index."""
    for attribute in node.attribute:
        if attribute.type == onnx.AttributeProto.GRAPH:
            yield attribute.name, attribute.g
        elif attribute.type == onnx.AttributeProto.GRAPHS:
            for index, graph in enumerate(attribute.graphs):
                yield f"{attribute.name}[{index}]", graph


def walk(model: onnx.ModelProto) -> Iterator[tuple[ScopePath, onnx.GraphProto | onnx.FunctionProto]]:
    """Yield every scope of a model with its container: owners before their subgraphs, functions last."""
    pending: list[tuple[ScopePath, onnx.GraphProto | onnx.FunctionProto]] = [(MAIN, model.graph)]
    pending[:0] = [(function_path(function), function) for function in reversed(model.functions)]
    while pending:
        here, scope = pending.pop()
        yield here, scope
        bodies = [
            (body_path(here, node, attribute), graph) for node in scope.node for attribute, graph in node_bodies(node)
        ]
        pending.extend(reversed(bodies))


def all_nodes(model: onnx.ModelProto) -> Iterator[onnx.NodeProto]:
    """Yield every node of every scope, in the order of :func:`walk`."""
    return (node for _, container in walk(model) for node in container.node)
