"""Read the suppressions in a model: notes in ``metadata_props`` that say which rules not to apply, where and why.

The key is ``qdqtool.ignore``. The value is one or more lines ``CODE[, CODE...]: reason`` on a node, a graph, a local
function or the model; it applies to everything inside.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import onnx

from qdqtool.models.graph.index.view import GraphView, NodeView, Scope

KEY = "qdqtool.ignore"


@dataclass(frozen=True, slots=True, eq=False)
class Suppression:
    """One line of a note.

    Attributes:
        prefixes: Beginnings of rule codes.
        reason: Why, as the note says; may be empty.
        node: The node that carries it; None for notes of a graph, a function or the model.
        scope: The graph or function that carries it; None for notes of the model.
    """

    prefixes: tuple[str, ...]
    reason: str
    node: NodeView | None = None
    scope: Scope | None = None

    @property
    def place(self) -> str:
        """The place of the note, in words."""
        if self.node is not None:
            return "the node"
        if self.scope is None:
            return "the model"
        return "the function" if self.scope.is_function else "the graph"

    def covers(self, node: NodeView | None) -> bool:
        """Whether it applies to ``node``, or to findings about the model as a whole (None)."""
        if self.scope is None:
            return True
        if node is None:
            return self.scope.parent is None and not self.scope.is_function
        if self.node is not None:
            return node is self.node or any(scope.owner is self.node for scope in node.scope.outwards())
        return any(scope is self.scope for scope in node.scope.outwards())


def read_suppressions(view: GraphView) -> tuple[Suppression, ...]:
    """Return every suppression of a model: those of the model first, then in the order of the walk."""
    found = [*_lines(view.model.proto.metadata_props, None, None)]
    for scope in view.scopes:
        found += _lines(scope.container.metadata_props, None, scope)
        for node in scope.nodes:
            found += _lines(node.proto.metadata_props, node, scope)
    return tuple(found)


def _lines(
    notes: Iterable[onnx.StringStringEntryProto], node: NodeView | None, scope: Scope | None
) -> Iterator[Suppression]:
    for note in notes:
        if note.key != KEY or not isinstance(note.value, str):
            continue
        for line in note.value.splitlines():
            codes, _, reason = line.partition(":")
            prefixes = tuple(word.strip() for word in codes.split(",") if word.strip())
            if prefixes:
                yield Suppression(prefixes, reason.strip(), node, scope)
