"""The sites of two models that read tensors, and the matching of nodes by name or by structure.

The structure of a node is everything above and below it in the graph. Q, DQ and Casts to float types are skipped, and
constants count only by shape. Therefore a float model has the structure of its quantized and half-precision versions.
Layers that differ only in the values of their constants are matched by these values.
"""

from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Iterator
from dataclasses import dataclass
from hashlib import sha256

import onnx

from qdqtool.models.graph.index.constants import Constants
from qdqtool.models.graph.index.model_index import FLOATS, ModelIndex
from qdqtool.models.graph.index.qdq import QdqNode, is_qdq
from qdqtool.models.graph.index.structure import digest, operation
from qdqtool.models.graph.index.view import GraphView, NodeView, Scope, Value
from qdqtool.models.graph.model import Model

# The limit ends the loop if an invalid graph has a cycle.
MAX_STEPS = 16


class Side:
    """One of two models that are compared, with its index."""

    def __init__(self, model: Model) -> None:
        self.model = model
        self.path = str(self.model.path) if self.model.path is not None else "<memory>"
        self.index = ModelIndex.of(self.model)

    def steps(self, value: Value | None) -> tuple[tuple["QdqStep", ...], Value | None]:
        """Return the Q/DQ steps that produce ``value``, the nearest first, and the tensor before all of them."""
        steps: list[QdqStep] = []
        while len(steps) < MAX_STEPS:
            entry = self.index.qdq.maker(value)
            if entry is None:
                break
            if entry.is_quantize:
                steps.append(QdqStep(entry, None))
                value = entry.data
                continue
            quantize = self.index.qdq.quantizer_of(entry)
            steps.append(QdqStep(quantize, entry))
            value = quantize.data if quantize is not None else entry.data
        return tuple(steps), value


@dataclass(frozen=True, slots=True)
class QdqStep:
    """A Q with the DQ that reads it, or a single node: a DQ of stored codes, or a Q whose codes are read directly."""

    quantize: QdqNode | None
    dequantize: QdqNode | None

    @property
    def main(self) -> QdqNode:
        """The DQ, or the Q if there is no DQ."""
        found = self.dequantize or self.quantize
        assert found is not None
        return found

    @property
    def first(self) -> QdqNode:
        """The Q, or the DQ if there is no Q: the same node for all DQ nodes of a Q."""
        return self.quantize or self.main

    @property
    def source(self) -> Value | None:
        """The tensor that is quantized, or the stored codes."""
        return self.quantize.data if self.quantize is not None else self.main.data


@dataclass(frozen=True, slots=True)
class ReadSite:
    """An input of a node (other than Q and DQ) that reads a tensor, or an output of a graph.

    Attributes:
        scope: The scope of the node or output.
        node: The node; None for outputs.
        index: Index of the input or output.
    """

    scope: Scope
    node: NodeView | None
    index: int

    @property
    def value(self) -> Value | None:
        """The tensor that is read."""
        if self.node is not None:
            return self.node.input(self.index)
        return self.scope.resolve(self.scope.output_names()[self.index])

    @property
    def label(self) -> str:
        """The name of the reader in reports."""
        if self.node is None:
            return f"output {self.scope.output_names()[self.index]}"
        more = f"[{self.index}]" if len(self.node.proto.input) > 1 else ""
        return f"{self.node.label}{more}"


def sites(scope: Scope) -> Iterator[ReadSite]:
    """Yield every site of a graph or function."""
    for node in plain_nodes(scope):
        for index, name in enumerate(node.proto.input):
            if name:
                yield ReadSite(scope, node, index)
    for index in range(len(scope.output_names())):
        yield ReadSite(scope, None, index)


def plain_nodes(scope: Scope) -> Iterator[NodeView]:
    """Return the nodes of a scope other than Q and DQ."""
    return (node for node in scope.nodes if not is_qdq(node))


Key = Callable[[NodeView], Hashable | None]
Pairs = dict[NodeView, NodeView]


class Structure:
    """Hashes of the nodes of one model. A hash covers all nodes above and below a node.

    Args:
        view: The model.
        twins: Nodes whose constants count by value; the constants of other nodes count by shape.
    """

    def __init__(self, view: GraphView, twins: Iterable[NodeView] = ()) -> None:
        constants = Constants(view)
        self._contents: dict[Value, str] = {}
        for value in (_source(each) for node in twins for each in node.inputs):
            if value is not None and constants.direct(value) is not None and value not in self._contents:
                array = constants.array(value)
                self._contents[value] = sha256(b"" if array is None else array.tobytes()).hexdigest()
        self._operations = {node: operation(node) for node in view.nodes()}
        self._above: dict[Value, str] = {}
        self._readers: dict[Value, list[str]] = {}
        self._up: dict[NodeView, str] = {}
        self._down: dict[NodeView, str] = {}
        for scope in view.scopes:
            self._add_above(scope)
        for scope in reversed(view.scopes):
            self._add_below(scope)

    def twins(self) -> list[NodeView]:
        """Return the nodes that have the same operators, inputs and constant shapes above them as another node."""
        count = Counter(self._up.values())
        return [node for node, up in self._up.items() if count[up] > 1 and not is_qdq(node)]

    def up(self, node: NodeView) -> str:
        """Return the hash of everything that ``node`` is computed from."""
        return self._up[node]

    def both(self, node: NodeView) -> tuple[str, str]:
        """Return the hashes of everything above ``node`` and of everything below it."""
        return self._up[node], self._down[node]

    def _add_above(self, scope: Scope) -> None:
        for position, name in enumerate(scope.input_names()):
            self._above[scope.values[name]] = f"input {position}"
        for value in scope.values.values():
            if value.initializer is not None:
                self._above[value] = f"constant {list(value.initializer.dims)}{self._contents.get(value, '')}"
        for node in scope.nodes:
            inputs = [self._above.get(value, "later") if value is not None else "" for value in node.inputs]
            self._up[node] = digest(self._operations[node], *inputs)
            for index, made in enumerate(node.outputs):
                if made is not None:
                    stored = _stored(node)
                    moved = inputs[0] if _is_skipped(node) and inputs else f"{index} {self._up[node]}"
                    self._above[made] = moved if stored is None else stored + self._contents.get(made, "")

    def _add_below(self, scope: Scope) -> None:
        for position, name in enumerate(scope.output_names()):
            if name in scope.values:
                self._readers.setdefault(scope.values[name], []).append(f"output {position}")
        for node in reversed(scope.nodes):
            below = [self._readers.get(value, []) if value is not None else [] for value in node.outputs]
            self._down[node] = digest(self._operations[node], *(digest(*sorted(readers)) for readers in below))
            for index, value in enumerate(node.inputs):
                if value is None:
                    continue
                if not _is_skipped(node):
                    self._readers.setdefault(value, []).append(f"{index} {self._down[node]}")
                elif index == 0 and below:
                    # Its readers count as readers of its input.
                    self._readers.setdefault(value, []).extend(below[0])


def match(before: GraphView, after: GraphView) -> tuple[Pairs, dict[Scope, Scope]]:
    """Return the nodes, graphs and functions of ``before``, each with its counterpart in ``after``.

    Q and DQ nodes are not matched. Nodes with equal structure are matched in file order.
    """
    shapes = Structure(before), Structure(after)
    values = Structure(before, shapes[0].twins()), Structure(after, shapes[1].twins())
    scopes = _same_functions(before, after)
    pairs: Pairs = {}
    pending = list(scopes.items())
    while pending:
        first, second = pending.pop()
        found = _match_nodes(plain_nodes(first), plain_nodes(second), shapes, values)
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


def _match_nodes(
    before: Iterable[NodeView],
    after: Iterable[NodeView],
    shapes: tuple[Structure, Structure],
    values: tuple[Structure, Structure],
) -> Pairs:
    (left, right), (exact_left, exact_right) = shapes, values
    pairs: Pairs = {}
    first, second = list(before), list(after)

    def take(one: Key, other: Key, *, in_order: bool = False) -> None:
        nonlocal first, second
        pairs.update(_equal(first, second, (one, other), in_order=in_order))
        taken = set(pairs.values())
        first, second = [node for node in first if node not in pairs], [node for node in second if node not in taken]

    # From the strongest evidence to the weakest; each pass sees only unmatched nodes.
    take(exact_left.both, exact_right.both)
    take(lambda node: (node.key, left.up(node)), lambda node: (node.key, right.up(node)))
    take(exact_left.up, exact_right.up)
    take(left.both, right.both)
    take(left.up, right.up)
    take(_by_outputs, _by_outputs)
    take(_by_name, _by_name)
    take(left.both, right.both, in_order=True)
    take(left.up, right.up, in_order=True)
    take(lambda node: left.both(node)[1], lambda node: right.both(node)[1])
    return pairs


def _equal(before: Iterable[NodeView], after: Iterable[NodeView], keys: tuple[Key, Key], *, in_order: bool) -> Pairs:
    """Return pairs of nodes with equal keys. With ``in_order``, nodes that share a key are paired in order."""
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


def _is_skipped(node: NodeView) -> bool:
    return is_qdq(node) or (node.is_op("Cast") and node.attribute("to") in FLOATS)


def _source(value: Value | None) -> Value | None:
    """Return the tensor before the Q and DQ nodes that make a tensor."""
    for _ in range(MAX_STEPS):
        if value is None or value.producer is None or not is_qdq(value.producer):
            break
        value = value.producer.input(0)
    return value


def _stored(node: NodeView) -> str | None:
    """Return the text that is hashed for a Constant node; an initializer of the same shape has the same text."""
    tensor = node.attribute("value") if node.is_op("Constant") else None
    return f"constant {list(tensor.dims)}" if isinstance(tensor, onnx.TensorProto) else None


def _by_outputs(node: NodeView) -> Hashable | None:
    return node.domain, node.op_type, node.key


def _by_name(node: NodeView) -> Hashable | None:
    return (node.domain, node.op_type, node.proto.name) if node.proto.name else None
