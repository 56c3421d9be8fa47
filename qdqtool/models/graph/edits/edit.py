"""The closed set of graph edits, as data.

Only :mod:`qdqtool.models.graph.edits.surgeon` applies them. A node is identified by its scope path and its output names
*in the model before the edits*.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import onnx

from qdqtool.models.graph.scope import ScopePath

NodeKey = tuple[str, ...]
"""The output names of a node, which are unique in its scope."""


@dataclass(frozen=True, slots=True, eq=False)
class AddInitializer:
    """Add an initializer to a scope. A local function has no initializers and gets a Constant node instead.

    Attributes:
        scope: The scope.
        tensor: The constant, packed as ONNX stores it. Its name must be new in the scope and in all enclosing scopes.
            The tensor may be pending (see :mod:`qdqtool.models.graph.model`).
    """

    scope: ScopePath
    tensor: onnx.TensorProto


@dataclass(frozen=True, slots=True, eq=False)
class RemoveInitializer:
    """Remove an initializer, and the graph input of the same name, which IR versions below 4 require."""

    scope: ScopePath
    name: str


@dataclass(frozen=True, slots=True, eq=False)
class AddNode:
    """Add a node. It is placed after the producers of its inputs and before the first reader of its outputs.

    Attributes:
        scope: The scope.
        op_type: Operator type.
        inputs: Input names; empty for an absent input.
        outputs: Output names, new in the scope or freed by a :class:`RenameOutput` of the same batch.
        name: Node name, unique in the model.
        domain: Operator domain.
        attributes: Attribute values, in a form that ``onnx.helper.make_attribute`` accepts.
    """

    scope: ScopePath
    op_type: str
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    name: str
    domain: str = ""
    attributes: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, eq=False)
class RemoveNode:
    """Remove a node. Each of its outputs must be unused, or made by another edit of the same batch."""

    scope: ScopePath
    node: NodeKey


@dataclass(frozen=True, slots=True, eq=False)
class SetInput:
    """Connect input ``index`` of a node to another tensor of its scope or of an enclosing scope."""

    scope: ScopePath
    node: NodeKey
    index: int
    tensor: str


@dataclass(frozen=True, slots=True, eq=False)
class RenameOutput:
    """Rename one output of a node. :class:`SetInput` must change the readers of the output separately."""

    scope: ScopePath
    node: NodeKey
    index: int
    name: str


@dataclass(frozen=True, slots=True, eq=False)
class SetAttribute:
    """Set an attribute of a node, or delete the attribute if ``value`` is None."""

    scope: ScopePath
    node: NodeKey
    name: str
    value: Any


@dataclass(frozen=True, slots=True, eq=False)
class SetNodeName:
    """Rename a node."""

    scope: ScopePath
    node: NodeKey
    name: str


@dataclass(frozen=True, slots=True, eq=False)
class SetDomain:
    """Change the domain of a node's operator."""

    scope: ScopePath
    node: NodeKey
    domain: str


@dataclass(frozen=True, slots=True, eq=False)
class SetOperator:
    """Change the operator of a node within its domain; node name, metadata and attributes stay."""

    scope: ScopePath
    node: NodeKey
    op_type: str


@dataclass(frozen=True, slots=True, eq=False)
class SetElementType:
    """Correct the declared element type of an inner tensor of a scope; do nothing if no type is declared.

    Use it together with edits that change the type of a tensor. The types of inputs and outputs of a scope cannot be
    changed, because callers rely on them.
    """

    scope: ScopePath
    tensor: str
    onnx_type: int


Edit = (
    AddInitializer
    | RemoveInitializer
    | AddNode
    | RemoveNode
    | SetInput
    | RenameOutput
    | SetAttribute
    | SetNodeName
    | SetDomain
    | SetOperator
    | SetElementType
)
