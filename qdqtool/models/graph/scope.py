"""Names of scopes: the main graph, a control-flow body, a local function.

A scope path is a tuple: empty for the main graph; one segment more for each body, made of the first output name of
the node that owns it and the attribute that holds it; a local function starts with its id. Node names never occur
in it, since models may leave them empty.
"""

from collections.abc import Iterator

import onnx

ScopePath = tuple[str, ...]

MAIN: ScopePath = ()


def function_path(function: onnx.FunctionProto) -> ScopePath:
    """The scope path of a local function: ``domain::name``, and ``:overload`` where it has one."""
    overload = f":{function.overload}" if function.overload else ""
    return (f"{function.domain}::{function.name}{overload}",)


def body_path(owner: ScopePath, node: onnx.NodeProto, attribute: str) -> ScopePath:
    """The scope path of a body graph of ``node``, which stands in scope ``owner``."""
    anchor = next((name for name in node.output if name), node.op_type)
    return (*owner, f"{anchor}.{attribute}")


def display(path: ScopePath) -> str:
    """The path as users see it: empty for the main graph, else the segments joined by ``/``."""
    return "/".join(path)


def node_bodies(node: onnx.NodeProto) -> Iterator[tuple[str, onnx.GraphProto]]:
    """The body graphs of a node with the name of their attribute; graphs in a list get an index."""
    for attribute in node.attribute:
        if attribute.type == onnx.AttributeProto.GRAPH:
            yield attribute.name, attribute.g
        elif attribute.type == onnx.AttributeProto.GRAPHS:
            for index, graph in enumerate(attribute.graphs):
                yield f"{attribute.name}[{index}]", graph


def walk(model: onnx.ModelProto) -> Iterator[tuple[ScopePath, onnx.GraphProto | onnx.FunctionProto]]:
    """Every scope of a model with its container, owners before their bodies, functions last."""
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
    """Every node of every scope, in the order of :func:`walk`."""
    return (node for _, container in walk(model) for node in container.node)
