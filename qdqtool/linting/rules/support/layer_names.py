"""Find Q and DQ whose layer name is already in use, in the order in which TensorRT imports a model.

TensorRT 1.7 for RTX sets the layer name only for Q and DQ, and refuses a name that another layer has. The other layer
may come from an earlier node in any graph, or from a constant that is already a layer. None of 110 other operators is
refused for its name. A local function is imported at each call, with the same names.
"""

from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from qdqtool.linting.rules.support.rule_context import RuleContext
from qdqtool.linting.rules.support.words import kind
from qdqtool.models.graph.index.qdq import DEQUANTIZE, QUANTIZE
from qdqtool.models.graph.index.tensorrt_operators import LINEAR, MX_DEQUANTIZE, MX_QUANTIZE
from qdqtool.models.graph.index.view import NodeView, Scope, Value


def dead_scopes(context: RuleContext) -> frozenset[Scope]:
    """Return the branches that an If with a constant condition never runs, and all scopes in them."""
    dead: set[Scope] = set()
    for scope in context.view.scopes:
        owner = scope.owner
        if owner is None:
            continue
        if owner.scope in dead:
            dead.add(scope)
        if not owner.is_op("If"):
            continue
        condition = context.array(owner.input(0))
        taken = None if condition is None or condition.size != 1 else bool(np.all(condition))
        branch = scope.path[-1].rpartition(".")[2]
        if taken is not None and branch != ("then_branch" if taken else "else_branch"):
            dead.add(scope)
    return frozenset(dead)


RENAMED = frozenset({QUANTIZE, DEQUANTIZE, *LINEAR, MX_QUANTIZE, MX_DEQUANTIZE})
NO_LAYER = frozenset({"Constant", "Dropout", "Size"})
"""Operators that make no layer with the name of the node."""

READS_WEIGHTS = frozenset({"Conv", "ConvTranspose", "BatchNormalization", "InstanceNormalization"})
"""Operators whose layer contains its constants, so that the constants get no layers of their own."""

MAX_DEPTH = 64
"""Deepest nesting of function calls and subgraphs that is followed, because a hostile file may nest thousands."""


@dataclass(frozen=True, slots=True)
class TakenName:
    """A Q or DQ whose layer name is already in use.

    Attributes:
        node: The node.
        name: The layer name: the name of the node, otherwise ``node_of_`` and its first output.
        owner: The layer that has the name, in words.
        again: Whether the other layer comes from the same node, in another call of its function.
    """

    node: NodeView
    name: str
    owner: str
    again: bool


def taken_names(context: RuleContext) -> Iterator[TakenName]:
    """Yield every Q and DQ whose layer name TensorRT refuses, each once."""
    return _Import(context).run()


class _Import:
    def __init__(self, context: RuleContext) -> None:
        self._context = context
        self._dead = dead_scopes(context)
        self._bodies: dict[NodeView | None, list[Scope]] = defaultdict(list)
        for scope in context.view.scopes:
            if scope not in self._dead:
                self._bodies[scope.owner].append(scope)
        self._owners: dict[str, NodeView | Value] = {}
        self._calls: dict[Scope, int] = defaultdict(int)
        self._imported: set[NodeView] = set()
        self._reported: set[NodeView] = set()

    def run(self) -> Iterator[TakenName]:
        return self._scope(self._context.view.main)

    def _scope(self, scope: Scope, depth: int = 0) -> Iterator[TakenName]:
        for node in scope.nodes if depth < MAX_DEPTH else ():
            function = self._context.called(node)
            if node.op_type in RENAMED:
                # TensorRT treats a local function of this name as the operator (QT407).
                yield from self._renamed(node)
            elif function is not None:
                yield from self._call(function, depth + 1)
            else:
                for body in self._bodies[node]:
                    yield from self._scope(body, depth + 1)
                self._other(node)

    def _call(self, function: Scope, depth: int) -> Iterator[TakenName]:
        self._calls[function] += 1
        # A third call finds nothing new. The limit also ends the walk if functions call themselves.
        if self._calls[function] <= 2:
            yield from self._scope(function, depth)

    def _renamed(self, node: NodeView) -> Iterator[TakenName]:
        for index in (0, 1):
            self._constant(node.input(index))
        name = node.proto.name or f"node_of_{next(filter(None, node.proto.output), '')}"
        owner = self._owners.setdefault(name, node)
        taken = owner is not node or node in self._imported
        self._imported.add(node)
        if taken and node not in self._reported:
            self._reported.add(node)
            yield TakenName(node, name, _words(owner), again=owner is node)

    def _other(self, node: NodeView) -> None:
        if node.op_type not in NO_LAYER:
            self._owners.setdefault(node.proto.name, node)
        if node.op_type not in READS_WEIGHTS:
            for value in node.inputs:
                self._constant(value)

    def _constant(self, value: Value | None) -> None:
        """Record a constant that becomes a layer when it is read. Shapes and indices may never become layers."""
        if value is None or self._context.constants.direct(value) is None:
            return
        if kind(self._context.elem_type(value)) not in {"int64", "int32", "bool"}:
            self._owners.setdefault(value.name, value)


def _words(owner: NodeView | Value) -> str:
    return f"the constant '{owner.name}'" if isinstance(owner, Value) else f"{owner.op_type} '{owner.label}'"
