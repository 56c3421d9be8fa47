"""The fixes that a rule or a pattern offers for a fault, as values.

The weights are read when a fix is written, not when it is offered: the search for faults reads no weights.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any, Literal, TypeVarTuple

import onnx

from qdqtool.linting.rules.support.rule_context import Array, RuleContext
from qdqtool.models.graph.edits.edit import (
    AddInitializer,
    AddNode,
    Edit,
    RemoveNode,
    RenameOutput,
    SetAttribute,
    SetDomain,
    SetElementType,
    SetInput,
    SetOperator,
)
from qdqtool.models.graph.edits.naming import Namer
from qdqtool.models.graph.index.view import NodeView, Scope, Value
from qdqtool.models.graph.io.tensors import make_tensor, nbytes, pending_tensor
from qdqtool.models.payload import Payload

Label = Literal["safe", "unsafe"]
Arguments = TypeVarTuple("Arguments")


@dataclass(frozen=True, slots=True)
class Offer:
    """A kind of fix that a rule can make.

    Attributes:
        label: ``safe`` when the model computes the same bits afterwards, ``unsafe`` when its numbers change.
        summary: What it does, in one line.
    """

    label: Label
    summary: str

    def fix(self, description: str, write: "Callable[[*Arguments, Draft], None]", *args: *Arguments) -> "Fix":
        """Return a fix of this kind, which writes its edits by ``write(*args, draft)``."""
        return Fix(self, description, lambda draft: write(*args, draft))


class UnfitError(Exception):
    """The values of the model do not permit this fix; the text says why."""


@dataclass(slots=True)
class Draft:
    """The edits that fixes write.

    Attributes:
        context: The model. It must be a fork of its own: constants that a fix makes are registered in it.
        namer: Names that nothing in the model has yet.
        edits: The edits so far.
        opset: The least opset of the default domain that the model is to have; 0 where it stays.
    """

    context: RuleContext
    namer: Namer
    edits: list[Edit] = field(default_factory=list)
    opset: int = 0

    def constant(self, scope: Scope, name: str, array: Array, onnx_type: int | None = None) -> str:
        """Store a small array in place of the constant ``name``, if there is one; return the new name.

        Its type is that of the array by default.
        """
        fresh = self.namer.tensor(name)
        tensor = make_tensor(fresh, array, onnx_type or onnx.helper.np_dtype_to_tensor_dtype(array.dtype))
        replaced = scope.resolve(name)
        if replaced is not None and replaced.initializer is not None:
            _carry(replaced.initializer, tensor)
        self.edits.append(AddInitializer(scope.path, tensor))
        return fresh

    def weights(self, scope: Scope, name: str, like: onnx.TensorProto, make: Callable[[], Array]) -> str:
        """Store an array that may be large; it is computed when the model is run or saved, and not kept.

        Args:
            scope: Where.
            name: The name to give, or one like it.
            like: Shape and type of what ``make`` returns, with the documentation that it is to carry.
            make: Computes the array.
        """
        fresh = self.namer.tensor(name)
        payload = Payload(nbytes(like), lambda: make_tensor("codes", make(), like.data_type).raw_data)
        tensor = pending_tensor(self.context.model, fresh, tuple(like.dims), like.data_type, payload)
        _carry(like, tensor)
        self.edits.append(AddInitializer(scope.path, tensor))
        return fresh

    def add(self, like: NodeView, op_type: str, inputs: tuple[str, ...], name: str, **attributes: Any) -> str:
        """Add a node beside ``like``; returns the name of its output."""
        output = self.namer.tensor(f"{name}_{op_type}_Output")
        self.place(like.scope, op_type, inputs, output, **attributes)
        return output

    def place(self, scope: Scope, op_type: str, inputs: tuple[str, ...], output: str, **attributes: Any) -> None:
        """Add a node with the output ``output``, a name that the fix has freed or that is new.

        An attribute that is None is left out.
        """
        node, given = self.namer.node(output.removesuffix("_Output")), attributes.items()
        kept = {name: value for name, value in given if value is not None}
        self.edits.append(AddNode(scope.path, op_type, inputs, (output,), node, attributes=kept))

    def set_input(self, node: NodeView, index: int, name: str) -> None:
        """Let an input of a node read another tensor; the empty name removes an optional input."""
        self.edits.append(SetInput(node.scope.path, node.key, index, name))

    def set_constant(self, node: NodeView, index: int, array: Array) -> None:
        """Let an input of a node read a small array in place of its constant."""
        self.set_input(node, index, self.constant(node.scope, node.input_name(index), array))

    def set_attribute(self, node: NodeView, name: str, value: Any) -> None:
        """Set an attribute of a node; None deletes it."""
        self.edits.append(SetAttribute(node.scope.path, node.key, name, value))

    def set_operator(self, node: NodeView, op_type: str) -> None:
        """Make a node an operator of ONNX's own domain; its name and attributes stay."""
        self.edits.append(SetOperator(node.scope.path, node.key, op_type))
        if node.domain:
            self.edits.append(SetDomain(node.scope.path, node.key, ""))

    def rename_output(self, node: NodeView, name: str) -> None:
        """Let the first output of a node have another name."""
        self.edits.append(RenameOutput(node.scope.path, node.key, 0, name))

    def require_opset(self, scope: Scope, opset: int) -> None:
        """Raise the opset where that of a scope is lower."""
        if scope.opset < opset:
            self.opset = max(self.opset, opset)

    def set_type(self, value: Value, onnx_type: int) -> None:
        """Correct the element type that the model states for a tensor."""
        self.edits.append(SetElementType(value.scope.path, value.name, onnx_type))

    def remove(self, node: NodeView) -> None:
        """Remove a node."""
        self.edits.append(RemoveNode(node.scope.path, node.key))

    def require_visible(self, value: Value, readers: Iterable[NodeView]) -> None:
        """Refuse a fix that lets nodes read a tensor whose name means another one, or nothing, where they stand.

        Raises:
            UnfitError: One of them stands there.
        """
        if any(reader.scope.resolve(value.name) is not value for reader in readers):
            raise UnfitError(f"'{value.name}' cannot be read here")

    def replace(self, value: Value, name: str) -> None:
        """Let all readers of ``value`` read ``name``.

        Raises:
            UnfitError: ``value`` is an output of its graph, whose name is a contract.
        """
        if value.is_output:
            raise UnfitError(f"'{value.name}' is an output")
        for use in value.uses:
            self.set_input(use.node, use.index, name)


@dataclass(frozen=True, slots=True)
class Fix:
    """One way to remove one fault.

    Attributes:
        offer: Which of the rule's offers it is.
        description: What it does here, in one line. Strings from the model are raw.
        write: Writes the edits; raises :class:`UnfitError` where the values do not permit it.
        is_ruled_out: Whether scale and zero point show already that the values do not permit it.
    """

    offer: Offer
    description: str
    write: Callable[[Draft], None]
    is_ruled_out: bool = False


def shaped(tensor: onnx.TensorProto, onnx_type: int) -> onnx.TensorProto:
    """Return a tensor with the shape and documentation of another, a given type, and no data."""
    result = onnx.TensorProto(data_type=onnx_type, dims=tensor.dims)
    _carry(tensor, result)
    return result


def _carry(source: onnx.TensorProto, target: onnx.TensorProto) -> None:
    """Copy the documentation and metadata of a tensor to the tensor that replaces it."""
    if source.doc_string:
        target.doc_string = source.doc_string
    target.metadata_props.extend(source.metadata_props)
