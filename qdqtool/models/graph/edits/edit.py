"""The closed set of graph edits, as values.

Only :mod:`qdqtool.models.graph.edits.surgeon` carries them out. Nodes are identified by their scope path and output
names *in the model before the edits*.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import onnx

from qdqtool.models.graph.scope import ScopePath

NodeKey = tuple[str, ...]
"""The output names of a node, unique in its scope."""


@dataclass(frozen=True, slots=True, eq=False)
class AddInitializer:
    """Add an initializer to a scope. In a local function, which has none, it becomes a Constant node.

    Attributes:
        scope: The scope.
        tensor: The constant, packed as ONNX stores it; its name must be new in the scope and those around it. It may
            be pending (see :mod:`qdqtool.models.graph.model`).
    """

    scope: ScopePath
    tensor: onnx.TensorProto


@dataclass(frozen=True, slots=True, eq=False)
class RemoveInitializer:
    """Remove an initializer, and the graph input of the same name that IR versions below 4 require."""

    scope: ScopePath
    name: str


@dataclass(frozen=True, slots=True, eq=False)
class AddNode:
    """Add a node; the surgeon finds its place: after its inputs are made, before the first use of its outputs.

    Attributes:
        scope: The scope.
        op_type: Operator.
        inputs: Input names, empty for an absent one.
        outputs: Output names, new in the scope (or freed by a :class:`RenameOutput` of the same batch).
        name: Node name, unique in the model.
        domain: Operator domain.
        attributes: Values as ``onnx.helper.make_attribute`` takes them.
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
    """Remove a node. Its outputs must be unused, or made by another edit of the same batch."""

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
    """Rename one output of a node. Its uses are not renamed: :class:`SetInput` moves them."""

    scope: ScopePath
    node: NodeKey
    index: int
    name: str


@dataclass(frozen=True, slots=True, eq=False)
class SetAttribute:
    """Set an attribute of a node, or delete it (``value`` None)."""

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
    """Move a node's operator to another domain."""

    scope: ScopePath
    node: NodeKey
    domain: str


@dataclass(frozen=True, slots=True, eq=False)
class SetOperator:
    """Change the operator of a node within its domain; its name, metadata and attributes stay."""

    scope: ScopePath
    node: NodeKey
    op_type: str


@dataclass(frozen=True, slots=True, eq=False)
class SetElementType:
    """Correct the declared element type of an inner tensor of a scope; do nothing where none is declared.

    It is for edits that change the type of a tensor. Inputs and outputs of a scope are a contract with its callers and
    stay as they are.
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
