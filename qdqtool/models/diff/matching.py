"""Match the nodes of two models: by name where the structure agrees, else by structure, else by name.

The structure of a node is all that it is computed from and all that is computed from it. Q and DQ nodes are skipped,
and constants count by their shape alone, so a float model and its quantized version have the same structure.
"""

from collections.abc import Callable, Hashable, Iterable

import onnx

from qdqtool.models.diff.sites import plain_nodes
from qdqtool.models.graph.index.qdq import is_qdq
from qdqtool.models.graph.index.structure import digest, operation
from qdqtool.models.graph.index.view import GraphView, NodeView, Scope, Value

Key = Callable[[NodeView], Hashable | None]
Pairs = dict[NodeView, NodeView]


class Structure:
    """Hashes of the nodes of one model, of all nodes above and below them."""

    def __init__(self, view: GraphView) -> None:
        self._operations = {node: operation(node) for node in view.nodes()}
        self._above: dict[Value, str] = {}
        self._readers: dict[Value, list[str]] = {}
        self._up: dict[NodeView, str] = {}
        self._down: dict[NodeView, str] = {}
        for scope in view.scopes:
            self._add_above(scope)
        for scope in reversed(view.scopes):
            self._add_below(scope)

    def up(self, node: NodeView) -> str:
        """Return the hash of everything that ``node`` is computed from."""
        return self._up[node]

    def both(self, node: NodeView) -> tuple[str, str]:
        """Return the hashes of everything above and below ``node``."""
        return self._up[node], self._down[node]

    def _add_above(self, scope: Scope) -> None:
        for position, name in enumerate(scope.input_names()):
            self._above[scope.values[name]] = f"input {position}"
        for value in scope.values.values():
            if value.initializer is not None:
                self._above[value] = f"constant {list(value.initializer.dims)}"
        for node in scope.nodes:
            inputs = [self._above.get(value, "later") if value is not None else "" for value in _inputs(node)]
            self._up[node] = digest(self._operations[node], *inputs)
            for index, made in enumerate(_outputs(node)):
                if made is not None:
                    self._above[made] = _stored(node) or (
                        inputs[0] if is_qdq(node) and inputs else f"{index} {self._up[node]}"
                    )

    def _add_below(self, scope: Scope) -> None:
        for position, name in enumerate(scope.output_names()):
            if name in scope.values:
                self._readers.setdefault(scope.values[name], []).append(f"output {position}")
        for node in reversed(scope.nodes):
            below = [self._readers.get(value, []) if value is not None else [] for value in _outputs(node)]
            self._down[node] = digest(self._operations[node], *(digest(*sorted(readers)) for readers in below))
            for index, value in enumerate(_inputs(node)):
                if value is None:
                    continue
                if not is_qdq(node):
                    self._readers.setdefault(value, []).append(f"{index} {self._down[node]}")
                elif index == 0 and below:
                    # A Q or DQ is skipped: its readers count as readers of its data input.
                    self._readers.setdefault(value, []).extend(below[0])


def match(before: GraphView, after: GraphView) -> tuple[Pairs, dict[Scope, Scope]]:
    """Return the nodes, and the graphs and functions, of ``before`` with their counterparts in ``after``.

    Q and DQ nodes are not matched. Nodes with equal structure are matched in the order of the file.
    """
    left, right = Structure(before), Structure(after)
    scopes = _same_functions(before, after)
    pairs: Pairs = {}
    pending = list(scopes.items())
    while pending:
        first, second = pending.pop()
        found = _match_nodes(plain_nodes(first), plain_nodes(second), left, right)
        pairs |= found
        inner = _same_bodies(found, before, after)
        scopes |= inner
        pending += inner.items()
    return pairs, scopes


def _same_functions(before: GraphView, after: GraphView) -> dict[Scope, Scope]:
    named = {scope.path: scope for scope in after.scopes if scope.is_function}
    same = {scope: named[scope.path] for scope in before.scopes if scope.is_function and scope.path in named}
    return {before.main: after.main, **same}


def _same_bodies(pairs: Pairs, before: GraphView, after: GraphView) -> dict[Scope, Scope]:
    bodies = {(scope.owner, _attribute(scope)): scope for scope in after.scopes if scope.owner is not None}
    same = {}
    for scope in before.scopes:
        counterpart = pairs.get(scope.owner) if scope.owner is not None else None
        if counterpart is not None and (counterpart, _attribute(scope)) in bodies:
            same[scope] = bodies[counterpart, _attribute(scope)]
    return same


def _attribute(scope: Scope) -> str:
    return scope.path[-1].rpartition(".")[2]


def _match_nodes(before: Iterable[NodeView], after: Iterable[NodeView], left: Structure, right: Structure) -> Pairs:
    pairs: Pairs = {}
    first, second = list(before), list(after)

    def take(one: Key, other: Key, *, in_order: bool = False) -> None:
        nonlocal first, second
        pairs.update(_equal(first, second, (one, other), in_order=in_order))
        taken = set(pairs.values())
        first, second = [node for node in first if node not in pairs], [node for node in second if node not in taken]

    # From the strongest evidence to the weakest; each pass sees only nodes that are not matched yet.
    take(lambda node: (node.key, left.up(node)), lambda node: (node.key, right.up(node)))
    take(left.both, right.both)
    take(left.up, right.up)
    take(_by_outputs, _by_outputs)
    take(_by_name, _by_name)
    take(left.both, right.both, in_order=True)
    take(left.up, right.up, in_order=True)
    take(lambda node: left.both(node)[1], lambda node: right.both(node)[1])
    return pairs


def _equal(before: Iterable[NodeView], after: Iterable[NodeView], keys: tuple[Key, Key], *, in_order: bool) -> Pairs:
    """Return the nodes with equal keys; where several share one, only with ``in_order``, as many as both sides have."""
    first, second = _by_key(before, keys[0]), _by_key(after, keys[1])
    pairs: Pairs = {}
    for key, nodes in first.items():
        others = second.get(key, [])
        if in_order or len(nodes) == len(others) == 1:
            pairs.update(zip(nodes, others, strict=False))
    return pairs


def _by_key(nodes: Iterable[NodeView], key: Key) -> dict[Hashable, list[NodeView]]:
    found: dict[Hashable, list[NodeView]] = {}
    for node in nodes:
        value = key(node)
        if value is not None:
            found.setdefault(value, []).append(node)
    return found


def _stored(node: NodeView) -> str | None:
    """Return the hash input of a Constant node, equal to that of an initializer of the same shape."""
    tensor = node.attribute("value") if node.is_op("Constant") else None
    return f"constant {list(tensor.dims)}" if isinstance(tensor, onnx.TensorProto) else None


def _by_outputs(node: NodeView) -> Hashable | None:
    return node.domain, node.op_type, node.key


def _by_name(node: NodeView) -> Hashable | None:
    return (node.domain, node.op_type, node.proto.name) if node.proto.name else None


def _inputs(node: NodeView) -> list[Value | None]:
    return [node.input(index) for index in range(len(node.proto.input))]


def _outputs(node: NodeView) -> list[Value | None]:
    return [node.output(index) for index in range(len(node.proto.output))]
