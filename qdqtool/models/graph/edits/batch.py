"""Sort edits by scope and node, and check that the model has the nodes and tensors that they name."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import onnx

from qdqtool.errors import ModelError
from qdqtool.models.graph.edits.edit import (
    AddInitializer,
    AddNode,
    Edit,
    NodeKey,
    RemoveInitializer,
    RemoveNode,
    RenameOutput,
    SetAttribute,
    SetDomain,
    SetElementType,
    SetInput,
    SetNodeName,
    SetOperator,
)
from qdqtool.models.graph.index.view import GraphView, NodeView, Scope
from qdqtool.models.graph.scope import ScopePath, display


class EditError(ValueError):
    """Edits do not fit the model or contradict each other: a bug of the code that made them, not a user error."""


@dataclass(slots=True)
class NodeChange:
    """The changes of one node that is not removed.

    Attributes:
        inputs: New tensor by input index.
        outputs: New name by output index.
        attributes: New value by name; None deletes the attribute.
        name: New node name.
        domain: New operator domain.
        op_type: New operator type.
    """

    inputs: dict[int, str] = field(default_factory=dict)
    outputs: dict[int, str] = field(default_factory=dict)
    attributes: dict[str, Any] = field(default_factory=dict)
    name: str | None = None
    domain: str | None = None
    op_type: str | None = None


@dataclass(slots=True, eq=False)
class ScopeBatch:
    """The edits of one scope, which is that of the model before the edits."""

    scope: Scope
    nodes: dict[NodeKey, NodeView]
    added: list[AddNode] = field(default_factory=list)
    removed: set[NodeKey] = field(default_factory=set)
    changes: dict[NodeKey, NodeChange] = field(default_factory=dict)
    new_initializers: list[onnx.TensorProto] = field(default_factory=list)
    old_initializers: set[str] = field(default_factory=set)
    element_types: dict[str, int] = field(default_factory=dict)

    def new_names(self) -> Iterator[str]:
        """Yield every tensor name that the edits of the scope define, with repetitions."""
        yield from (tensor.name for tensor in self.new_initializers)
        for node in self.added:
            yield from filter(None, node.outputs)
        for key, change in self.changes.items():
            if key not in self.removed:
                yield from change.outputs.values()

    def old_names(self) -> set[str]:
        """Return every tensor name that loses its definition; other edits may define it again."""
        names = {name for key in self.removed for name in key if name}
        names |= {key[index] for key, change in self.changes.items() for index in change.outputs}
        return names | self.old_initializers

    def vanished_names(self) -> set[str]:
        """Return every tensor name that is defined before the edits and undefined after them."""
        return self.old_names() - set(self.new_names())

    def key_after(self, key: NodeKey) -> NodeKey:
        """Return the output names of a node after the renames."""
        renames = self.changes[key].outputs if key in self.changes else {}
        return tuple(renames.get(index, name) for index, name in enumerate(key))

    def add(self, edit: Edit) -> None:
        """Add one edit.

        Raises:
            EditError: The scope lacks a node or tensor of the edit, or the edit contradicts an earlier one.
        """
        match edit:
            case AddInitializer(tensor=tensor):
                self.new_initializers.append(tensor)
            case RemoveInitializer(name=name):
                self._check_initializer(name)
                self.old_initializers.add(name)
            case AddNode(outputs=outputs):
                if not any(outputs):
                    raise EditError(f"a new {edit.op_type} node in {self._where()} has no output")
                self.added.append(edit)
            case RemoveNode(node=key):
                self._check_node(key)
                self.removed.add(key)
            case SetElementType(tensor=name, onnx_type=onnx_type):
                self._set_type(name, onnx_type)
            case SetInput() | RenameOutput() | SetAttribute() | SetNodeName() | SetDomain() | SetOperator():
                self._change(edit)

    def _change(self, edit: SetInput | RenameOutput | SetAttribute | SetNodeName | SetDomain | SetOperator) -> None:
        self._check_node(edit.node)
        change = self.changes.setdefault(edit.node, NodeChange())
        match edit:
            case SetInput(index=index, tensor=tensor):
                if change.inputs.setdefault(index, tensor) != tensor:
                    raise EditError(f"{self._label(edit.node)}: input {index} is set twice, to different tensors")
            case RenameOutput(node=key, index=index, name=name):
                if not (0 <= index < len(key) and key[index] and name):
                    raise EditError(f"{self._label(key)} has no output {index} that could become '{name}'")
                if change.outputs.setdefault(index, name) != name:
                    raise EditError(f"{self._label(key)}: output {index} is renamed twice")
            case SetAttribute(name=name, value=value):
                change.attributes[name] = value
            case SetNodeName(name=name):
                change.name = name
            case SetDomain(domain=domain):
                change.domain = domain
            case SetOperator(op_type=op_type):
                change.op_type = op_type

    def _set_type(self, name: str, onnx_type: int) -> None:
        if name not in self.scope.values:
            raise EditError(f"{self._where()} has no tensor '{name}'")
        if self.element_types.setdefault(name, onnx_type) != onnx_type:
            raise EditError(f"tensor '{name}' of {self._where()} is given two types")

    def _check_node(self, key: NodeKey) -> None:
        if key not in self.nodes or not any(key):
            raise EditError(f"{self._where()} has no node with outputs {list(key)}")

    def _check_initializer(self, name: str) -> None:
        value = self.scope.values.get(name)
        if value is None or value.initializer is None:
            raise EditError(f"{self._where()} has no initializer '{name}'")

    def _label(self, key: NodeKey) -> str:
        return f"node '{self.nodes[key].label}' of {self._where()}"

    def _where(self) -> str:
        return where(self.scope.path)


def where(path: ScopePath) -> str:
    """Return the name of a scope for error messages."""
    return f"scope '{display(path)}'" if path else "the main graph"


def sort_edits(view: GraphView, edits: Sequence[Edit]) -> dict[ScopePath, ScopeBatch]:
    """Return the edits grouped by scope."""
    batches: dict[ScopePath, ScopeBatch] = {}
    for edit in edits:
        if edit.scope not in batches:
            batches[edit.scope] = new_batch(view, edit.scope)
        batches[edit.scope].add(edit)
    return batches


def new_batch(view: GraphView, path: ScopePath) -> ScopeBatch:
    """Return a batch of one scope without edits.

    Raises:
        EditError: The model has no such scope.
        ModelError: Two nodes of the scope have the same outputs, so an edit cannot identify one of them.
    """
    try:
        scope = view.scope(path)
    except KeyError:
        raise EditError(f"the model has no {where(path)}") from None
    nodes: dict[NodeKey, NodeView] = {}
    for node in scope.nodes:
        if nodes.setdefault(node.key, node) is not node and any(node.key):
            raise ModelError(f"{where(path)} defines tensor '{next(filter(None, node.key))}' twice")
    return ScopeBatch(scope, nodes)
