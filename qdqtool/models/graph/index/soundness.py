"""Check that a model is a valid graph: each name is defined once, each output is made, and there are no cycles.

ONNX's checker finds these faults too, but it stops at the first one and needs the weights. A model must be sound before
it is edited or run; the linter reports each fault.
"""

import contextlib
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from graphlib import CycleError, TopologicalSorter

import onnx

from qdqtool.errors import ModelError
from qdqtool.models.graph.index.view import GraphView, NodeView, Scope, Use
from qdqtool.models.graph.scope import display


@dataclass(frozen=True, slots=True)
class Unsound:
    """A reason why a scope is not a valid graph.

    Attributes:
        scope: The scope.
        tensor: Name of the faulty tensor.
        problem: The fault, as words to print after the tensor name.
        node: The faulty node; None if the fault is not in a node.
        use: The faulty use of the tensor, in the node or in a subgraph; None for other faults.
    """

    scope: Scope
    tensor: str
    problem: str
    node: NodeView | None = None
    use: Use | None = None


def require_sound(view: GraphView) -> None:
    """Refuse a model that is not a valid graph.

    Raises:
        ModelError: A name is undefined or defined twice, an output is not made, or a tensor depends on itself.
    """
    for scope in view.scopes:
        for found in (*unsound(scope), *_undefined_inputs(scope)):
            where = f" in '{display(scope.path)}'" if scope.path else ""
            raise ModelError(f"the model is not valid: tensor '{found.tensor}'{where} {found.problem}")


def unsound(scope: Scope) -> Iterator[Unsound]:
    """Yield names of one scope that are defined twice, outputs that nothing makes, and one tensor in a cycle.

    Undefined inputs are not included, because they are faults of the nodes that read them.
    """
    for name, count in Counter(_definitions(scope)).items():
        if count > 1:
            yield Unsound(scope, name, "is defined more than once")
    for name in scope.output_names():
        if scope.resolve(name) is None:
            yield Unsound(scope, name, "is an output that nothing makes")
    # If the nodes are in topological order, there is no cycle.
    stuck = _in_cycles(scope) if _read_early(scope) else set()
    if stuck:
        first = min(stuck, key=lambda node: node.index)
        yield Unsound(scope, next((name for name in first.key if name), ""), "depends on itself", first)


def out_of_order(scope: Scope) -> Iterator[Unsound]:
    """Yield the nodes of one scope that read (directly or in a subgraph) a tensor that a later node makes.

    ONNX requires topological order; TensorRT and ONNX Runtime sort the nodes themselves. Nodes in a cycle have no
    topological order and are not included.
    """
    early = _read_early(scope)
    stuck = _in_cycles(scope) if early else set()
    yield from (found for found in early if found.node not in stuck)


def _read_early(scope: Scope) -> list[Unsound]:
    """Return each tensor that a node reads before its producer runs, with the first such use in that node."""
    found: dict[tuple[NodeView, NodeView], Unsound] = {}
    for value in scope.values.values():
        maker = value.producer
        if maker is None:
            continue
        for use in value.uses:
            reader = _ancestor_in(scope, use.node)
            if reader.index <= maker.index and (maker, reader) not in found:
                problem = f"is read before {maker.label} makes it"
                found[maker, reader] = Unsound(scope, value.name, problem, reader, use)
    return list(found.values())


def _definitions(scope: Scope) -> Iterator[str]:
    inputs = scope.input_names()
    yield from inputs
    if isinstance(scope.container, onnx.GraphProto):
        given = set(inputs)
        yield from (tensor.name for tensor in scope.container.initializer if tensor.name not in given)
    for node in scope.nodes:
        yield from filter(None, node.proto.output)


def _undefined_inputs(scope: Scope) -> Iterator[Unsound]:
    for node in scope.nodes:
        for name in node.proto.input:
            if name and scope.resolve(name) is None:
                yield Unsound(scope, name, f"is read by {node.label} and defined nowhere", node)


def _in_cycles(scope: Scope) -> set[NodeView]:
    """Return the nodes that cannot be put in topological order."""
    sorter: TopologicalSorter[NodeView] = TopologicalSorter(dict.fromkeys(scope.nodes, ()))
    for value in scope.values.values():
        if value.producer is not None:
            for use in value.uses:
                sorter.add(_ancestor_in(scope, use.node), value.producer)
    with contextlib.suppress(CycleError):
        sorter.prepare()
    stuck = set(scope.nodes)
    while ready := sorter.get_ready():
        stuck.difference_update(ready)
        sorter.done(*ready)
    return stuck


def _ancestor_in(scope: Scope, node: NodeView) -> NodeView:
    while node.scope is not scope:
        owner = node.scope.owner
        assert owner is not None
        node = owner
    return node
