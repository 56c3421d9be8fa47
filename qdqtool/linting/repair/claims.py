"""The nodes and tensors that a batch of edits changes, so that no two fixes of a batch change the same one."""

from collections.abc import Sequence
from dataclasses import dataclass, field

from qdqtool.models.graph.edits.edit import (
    AddInitializer,
    AddNode,
    Edit,
    RemoveInitializer,
    RemoveNode,
    RenameOutput,
    SetAttribute,
    SetElementType,
    SetInput,
)
from qdqtool.models.graph.scope import ScopePath

_WHOLE = "whole"

Place = tuple[ScopePath, tuple[str, ...]]


@dataclass(slots=True)
class Claims:
    """The places that are taken: aspects of nodes and tensors."""

    _taken: dict[Place, set[object]] = field(default_factory=dict)

    def add(self, edits: Sequence[Edit]) -> bool:
        """Take the places of ``edits``; if one of them is taken already, take none and return False."""
        wanted = [place for edit in edits if (place := _place(edit)) is not None]
        if any(self._is_taken(where, aspect) for where, aspect in wanted):
            return False
        for where, aspect in wanted:
            self._taken.setdefault(where, set()).add(aspect)
        return True

    def _is_taken(self, where: Place, aspect: object) -> bool:
        taken = self._taken.get(where, set())
        return bool(taken) if aspect == _WHOLE else aspect in taken or _WHOLE in taken


def _place(edit: Edit) -> tuple[Place, object] | None:
    match edit:
        # New names are unique in the whole batch, so additions never conflict.
        case AddInitializer() | AddNode():
            return None
        case RemoveInitializer(scope=scope, name=name) | SetElementType(scope=scope, tensor=name):
            return (scope, ("tensor", name)), _WHOLE
        case RemoveNode(scope=scope, node=node):
            return (scope, node), _WHOLE
        case SetInput(index=aspect) | RenameOutput(index=aspect) | SetAttribute(name=aspect):
            return (edit.scope, edit.node), (type(edit), aspect)
        case _:
            return (edit.scope, edit.node), type(edit)
