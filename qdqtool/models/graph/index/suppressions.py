"""Read the suppressions in a model: notes in ``metadata_props`` that switch off rules, with the reason.

The key is ``qdqtool.ignore``. The value is one or more lines ``CODE[, CODE...]: reason`` on a node, a graph, a local
function or the model. A note applies to everything inside.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import onnx

from qdqtool.models.graph.index.view import GraphView, NodeView, Scope

KEY = "qdqtool.ignore"


@dataclass(frozen=True, slots=True, eq=False)
class Suppression:
    """One line of a suppression note.

    Attributes:
        prefixes: First letters of rule codes, or whole codes.
        reason: The reason that the note gives; may be empty.
        node: The node with the note; None for a note of a graph, a function or the model.
        scope: The graph or function with the note; None for a note of the model.
    """

    prefixes: tuple[str, ...]
    reason: str
    node: NodeView | None = None
    scope: Scope | None = None

    @property
    def place(self) -> str:
        """The place of the note, for messages."""
        if self.node is not None:
            return "the node"
        if self.scope is None:
            return "the model"
        return "the function" if self.scope.is_function else "the graph"

    def covers(self, node: NodeView | None) -> bool:
        """Return whether the note applies to ``node``, or (None) to findings about the model as a whole."""
        if self.scope is None:
            return True
        if node is None:
            return self.scope.parent is None and not self.scope.is_function
        if self.node is not None:
            return node is self.node or any(scope.owner is self.node for scope in node.scope.outwards())
        return any(scope is self.scope for scope in node.scope.outwards())


def read_suppressions(view: GraphView) -> tuple[Suppression, ...]:
    """Return every suppression: first the notes of the model itself, then the notes of its scopes and nodes."""
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
