"""Classes for fixes, which rules offer for faults, and forms for the notation of another tool.

Offering a fix reads no weights: they are read only when the edits of the fix are written.
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
        label: ``safe`` if the fixed model computes the same bits, ``unsafe`` if its numbers change.
        summary: What the fix does, in one line.
        is_open_for_nan: Whether NaN may get another code, since ONNX does not define it.
    """

    label: Label
    summary: str
    is_open_for_nan: bool = False

    def fix(self, description: str, write: "Callable[[*Arguments, Draft], None]", *args: *Arguments) -> "Fix":
        """Return a fix of this kind; ``write(*args, draft)`` writes its edits."""
        return Fix(self, description, lambda draft: write(*args, draft))


class UnfitError(Exception):
    """The values of the model do not permit this fix; the message states the reason."""


@dataclass(slots=True)
class Draft:
    """Collects the edits that fixes write.

    Attributes:
        context: The context of the model. The model must be a separate fork: constants of fixes are registered in it.
        namer: Makes names that are not in the model yet.
        edits: The edits so far.
        opset: The lowest opset of the default domain that the fixed model needs; 0 to keep its opset.
    """

    context: RuleContext
    namer: Namer
    edits: list[Edit] = field(default_factory=list)
    opset: int = 0

    def constant(self, scope: Scope, name: str, array: Array, onnx_type: int | None = None) -> str:
        """Store a small array in place of the constant ``name``, if there is one; return the new name.

        ``onnx_type`` is by default the type of the array.
        """
        fresh = self.namer.tensor(name)
        tensor = make_tensor(fresh, array, onnx_type or onnx.helper.np_dtype_to_tensor_dtype(array.dtype))
        replaced = scope.resolve(name)
        if replaced is not None and replaced.initializer is not None:
            _carry(replaced.initializer, tensor)
        self.edits.append(AddInitializer(scope.path, tensor))
        return fresh

    def weights(self, scope: Scope, name: str, like: onnx.TensorProto, make: Callable[[], Array]) -> str:
        """Store an array that may be large. It is computed when the model is run or saved, and not kept in memory.

        Args:
            scope: The scope of the new initializer.
            name: The wanted name; the name used may differ slightly.
            like: A tensor with the shape and type that ``make`` returns, and with the documentation to store.
            make: Function that computes the array.
        """
        fresh = self.namer.tensor(name)
        payload = Payload(nbytes(like), lambda: make_tensor("codes", make(), like.data_type).raw_data)
        tensor = pending_tensor(self.context.model, fresh, tuple(like.dims), like.data_type, payload)
        _carry(like, tensor)
        self.edits.append(AddInitializer(scope.path, tensor))
        return fresh

    def add(self, like: NodeView, op_type: str, inputs: tuple[str, ...], name: str, **attributes: Any) -> str:
        """Add a node to the scope of ``like``; return the name of its output."""
        output = self.namer.tensor(f"{name}_{op_type}_Output")
        self.place(like.scope, op_type, inputs, output, **attributes)
        return output

    def place(self, scope: Scope, op_type: str, inputs: tuple[str, ...], output: str, **attributes: Any) -> None:
        """Add a node with the output ``output``: a new name, or the name of an output that the fix renamed or removed.

        Attributes that are None are left out.
        """
        node, given = self.namer.node(output.removesuffix("_Output")), attributes.items()
        kept = {name: value for name, value in given if value is not None}
        self.edits.append(AddNode(scope.path, op_type, inputs, (output,), node, attributes=kept))

    def set_input(self, node: NodeView, index: int, name: str) -> None:
        """Let an input of a node read another tensor. The empty name removes an optional input."""
        self.edits.append(SetInput(node.scope.path, node.key, index, name))

    def set_constant(self, node: NodeView, index: int, array: Array) -> None:
        """Let an input of a node read a small array in place of its constant."""
        self.set_input(node, index, self.constant(node.scope, node.input_name(index), array))

    def set_attribute(self, node: NodeView, name: str, value: Any) -> None:
        """Set an attribute of a node; None deletes it."""
        self.edits.append(SetAttribute(node.scope.path, node.key, name, value))

    def set_operator(self, node: NodeView, op_type: str) -> None:
        """Change a node to an operator of the default domain; its name and attributes stay."""
        self.edits.append(SetOperator(node.scope.path, node.key, op_type))
        if node.domain:
            self.edits.append(SetDomain(node.scope.path, node.key, ""))

    def rename_output(self, node: NodeView, name: str) -> None:
        """Rename the first output of a node."""
        self.edits.append(RenameOutput(node.scope.path, node.key, 0, name))

    def require_opset(self, scope: Scope, opset: int) -> None:
        """Raise the opset if the opset of the scope is lower."""
        if scope.opset < opset:
            self.opset = max(self.opset, opset)

    def set_type(self, value: Value, onnx_type: int) -> None:
        """Correct the element type that the model declares for a tensor."""
        self.edits.append(SetElementType(value.scope.path, value.name, onnx_type))

    def remove(self, node: NodeView) -> None:
        """Remove a node."""
        self.edits.append(RemoveNode(node.scope.path, node.key))

    def require_visible(self, value: Value, readers: Iterable[NodeView]) -> None:
        """Refuse a fix if the name of ``value`` means another tensor, or none, in the scope of a reader.

        Raises:
            UnfitError: In the scope of a reader, the name means another tensor or none.
        """
        if any(reader.scope.resolve(value.name) is not value for reader in readers):
            raise UnfitError(f"'{value.name}' cannot be read here")

    def replace(self, value: Value, name: str) -> None:
        """Let all readers of ``value`` read ``name``.

        Raises:
            UnfitError: ``value`` is an output of its graph: callers rely on its name.
        """
        if value.is_output:
            raise UnfitError(f"'{value.name}' is an output")
        for use in value.uses:
            self.set_input(use.node, use.index, name)


@dataclass(frozen=True, slots=True)
class Fix:
    """One way to remove one fault.

    Attributes:
        offer: The kind of fix, one of the rule's offers.
        description: What the fix does here, in one line. Strings from the model are not escaped.
        write: Function that writes the edits; it raises :class:`UnfitError` if the values do not permit the fix.
        is_ruled_out: Whether the scale and the zero point alone show that the fix is not possible.
    """

    offer: Offer
    description: str
    write: Callable[[Draft], None]
    is_ruled_out: bool = False


def shaped(tensor: onnx.TensorProto, onnx_type: int) -> onnx.TensorProto:
    """Return an empty tensor with the shape and documentation of another tensor and a given type."""
    result = onnx.TensorProto(data_type=onnx_type, dims=tensor.dims)
    _carry(tensor, result)
    return result


def _carry(source: onnx.TensorProto, target: onnx.TensorProto) -> None:
    """Copy the documentation and metadata of a tensor to the tensor that replaces it."""
    if source.doc_string:
        target.doc_string = source.doc_string
    target.metadata_props.extend(source.metadata_props)
