"""Copy the requested changes, and nothing else, from graphsurgeon's export into the original model."""

from collections.abc import Collection, Iterable, Mapping, MutableSequence
from typing import Any

import onnx

from qdqtool.models.graph.edits.batch import ScopeBatch
from qdqtool.models.graph.edits.edit import NodeKey
from qdqtool.models.graph.edits.placing import Container, add_in_place

Exported = Mapping[NodeKey, onnx.NodeProto]
"""The nodes of a scope as graphsurgeon exports them, by their outputs."""


def take_over(container: Container, batch: ScopeBatch, exported: Exported, moved: Collection[NodeKey]) -> None:
    """Change one scope of the copied original.

    Args:
        container: The scope in the copy.
        batch: The edits.
        exported: The changed and new nodes.
        moved: Nodes in whose bodies inputs were changed.

    Raises:
        EditError: The edits make a cycle.
    """
    _remove_nodes(container, batch.removed)
    _remove_constants(container, batch.old_initializers)
    _forget(container, batch.vanished_names())
    _set_types(container, batch.element_types)
    touched = batch.changes.keys() | set(moved)
    positions = [index for index, node in enumerate(container.node) if tuple(node.output) in touched]
    for index in positions:
        _take_node(container.node[index], batch, exported)
    new = [exported[added.outputs] for added in batch.added]
    if new or positions:
        add_in_place(container, new, positions)
    _add_constants(container, batch.new_initializers)


def _take_node(node: onnx.NodeProto, batch: ScopeBatch, exported: Exported) -> None:
    key = tuple(node.output)
    change = batch.changes.get(key)
    if change is None:
        return
    source = exported[batch.key_after(key)]
    if change.inputs:
        node.input[:] = _without_trailing_blanks(source.input)
    if change.outputs:
        node.output[:] = source.output
    if change.name is not None:
        node.name = source.name
    if change.domain is not None:
        node.domain = source.domain
    if change.op_type is not None:
        node.op_type = source.op_type
    for name in change.attributes:
        _take_attribute(node, source, name)


def _take_attribute(node: onnx.NodeProto, source: onnx.NodeProto, name: str) -> None:
    position = next((index for index, attribute in enumerate(node.attribute) if attribute.name == name), None)
    wanted = next((attribute for attribute in source.attribute if attribute.name == name), None)
    if wanted is None:
        if position is not None:
            del node.attribute[position]
    elif position is None:
        node.attribute.append(wanted)
    else:
        node.attribute[position].CopyFrom(wanted)


def _without_trailing_blanks(names: Iterable[str]) -> list[str]:
    kept = list(names)
    while kept and not kept[-1]:
        kept.pop()
    return kept


def _remove_nodes(container: Container, removed: Collection[NodeKey]) -> None:
    for index in reversed(range(len(container.node))) if removed else ():
        if tuple(container.node[index].output) in removed:
            del container.node[index]


def _remove_constants(container: Container, names: Collection[str]) -> None:
    if isinstance(container, onnx.GraphProto) and names:
        _delete(container.initializer, [tensor.name in names for tensor in container.initializer])
        _delete(container.input, [value.name in names for value in container.input])


def _forget(container: Container, names: Collection[str]) -> None:
    """Remove types and quantization annotations of tensors that no longer exist."""
    _delete(container.value_info, [value.name in names for value in container.value_info])
    if isinstance(container, onnx.GraphProto):
        annotations = container.quantization_annotation
        _delete(annotations, [annotation.tensor_name in names for annotation in annotations])


def _set_types(container: Container, types: Mapping[str, int]) -> None:
    for value in container.value_info:
        if value.name in types and value.type.HasField("tensor_type"):
            value.type.tensor_type.elem_type = types[value.name]


def _delete(items: MutableSequence[Any], doomed: list[bool]) -> None:
    for index in reversed(range(len(doomed))):
        if doomed[index]:
            del items[index]


def _add_constants(container: Container, tensors: Collection[onnx.TensorProto]) -> None:
    if isinstance(container, onnx.GraphProto):
        container.initializer.extend(tensors)
        return
    for position, tensor in enumerate(tensors):
        node = onnx.NodeProto(op_type="Constant", output=[tensor.name])
        node.attribute.add(name="value", type=onnx.AttributeProto.TENSOR).t.CopyFrom(tensor)
        container.node.insert(position, node)
