"""Copy a model without the initializers that will be removed."""

from collections.abc import Container

import onnx
from google.protobuf.message import Message
from google.protobuf.unknown_fields import UnknownFieldSet
from onnx import TensorProto

from qdqtool.models.graph.io.tensors import element_count, is_external
from qdqtool.models.graph.scope import node_bodies

KEPT_BYTES = 1024
"""Tensors of at most this many bytes keep their data, because shape inference reads small tensors such as shapes."""


def without_weights(proto: onnx.ModelProto) -> onnx.ModelProto:
    """Copy a model; initializers above :data:`KEPT_BYTES` keep only name, type and dims.

    Their data is never copied, so a model with gigabytes of inline weights needs little memory.
    """
    copy = onnx.ModelProto()
    copy_fields(proto, copy, "graph", "training_info")
    _copy_graph(proto.graph, copy.graph)
    return copy


def _copy_graph(source: onnx.GraphProto, target: onnx.GraphProto) -> None:
    copy_fields(source, target, "initializer", "node", "sparse_initializer")
    for tensor in source.initializer:
        _copy_tensor(tensor, target.initializer.add())
    for node in source.node:
        _copy_node(node, target.node.add())


def _copy_node(source: onnx.NodeProto, target: onnx.NodeProto) -> None:
    if not any(True for _ in node_bodies(source)):
        target.CopyFrom(source)
        return
    copy_fields(source, target, "attribute")
    for attribute in source.attribute:
        copied = target.attribute.add()
        if attribute.type == onnx.AttributeProto.GRAPH:
            copied.name, copied.type = attribute.name, attribute.type
            _copy_graph(attribute.g, copied.g)
        else:
            copied.CopyFrom(attribute)


def _copy_tensor(source: TensorProto, target: TensorProto) -> None:
    # To count bytes, protobuf would create them, so elements are counted. The smallest type has two bits.
    if is_external(source) or element_count(source) > 4 * KEPT_BYTES or source.ByteSize() > KEPT_BYTES:
        copy_without_data(source, target)
    else:
        target.CopyFrom(source)


def copy_without_data(source: TensorProto, target: TensorProto) -> None:
    """Copy name, type and dims of a tensor, and mark its data as external."""
    target.name, target.data_type = source.name, source.data_type
    target.dims.extend(source.dims)
    target.data_location = TensorProto.EXTERNAL
    target.external_data.add(key="location", value="left-out")


def copy_model(proto: onnx.ModelProto, dropped: Container[str] = ()) -> onnx.ModelProto:
    """Copy a model without the initializers ``dropped`` of the main graph.

    The bytes of these initializers are never copied: protobuf frees memory only with the whole message, so weights that
    are copied and then deleted would stay in memory with the result. If the model has fields that this onnx package
    does not know, it is copied completely, because only CopyFrom keeps them; the caller then removes the initializers.
    """
    copy = onnx.ModelProto()
    if not dropped or has_unknown_fields(proto) or has_unknown_fields(proto.graph):
        copy.CopyFrom(proto)
        return copy
    copy_fields(proto, copy, "graph")
    copy_fields(proto.graph, copy.graph, "initializer")
    copy.graph.initializer.extend(tensor for tensor in proto.graph.initializer if tensor.name not in dropped)
    return copy


def has_unknown_fields(message: Message) -> bool:
    """Return whether a message has fields that this onnx package does not know."""
    return len(UnknownFieldSet(message)) > 0


def copy_fields(source: Message, target: Message, *left_out: str) -> None:
    """Copy every field that is set, except ``left_out``, whose bytes are never copied."""
    for field, value in source.ListFields():
        if field.name in left_out:
            continue
        if field.is_repeated:
            getattr(target, field.name).extend(value)
        elif isinstance(value, Message):
            getattr(target, field.name).CopyFrom(value)
        else:
            setattr(target, field.name, value)
