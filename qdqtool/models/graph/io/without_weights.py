"""Copy a model without its weights, for libraries that need only names, types and small constants."""

import onnx
from onnx import TensorProto

from qdqtool.models.graph.io.tensors import element_count, is_external
from qdqtool.models.graph.scope import node_bodies

KEPT_BYTES = 1024
"""Tensors of at most this many bytes keep their data: shape inference reads shapes, axes and the like."""


def without_weights(proto: onnx.ModelProto) -> onnx.ModelProto:
    """Copy a model; initializers above :data:`KEPT_BYTES` keep name, type and dims but no data.

    The data is never copied, so a model with gigabytes of inline weights needs little memory.
    """
    copy = onnx.ModelProto()
    for field, value in proto.ListFields():
        if field.name not in {"graph", "training_info"}:
            _copy_field(copy, field.name, value)
    _copy_graph(proto.graph, copy.graph)
    return copy


def _copy_graph(source: onnx.GraphProto, target: onnx.GraphProto) -> None:
    for field, value in source.ListFields():
        if field.name == "initializer":
            for tensor in value:
                _copy_tensor(tensor, target.initializer.add())
        elif field.name == "node":
            for node in value:
                _copy_node(node, target.node.add())
        elif field.name != "sparse_initializer":
            _copy_field(target, field.name, value)


def _copy_node(source: onnx.NodeProto, target: onnx.NodeProto) -> None:
    if not any(True for _ in node_bodies(source)):
        target.CopyFrom(source)
        return
    for field, value in source.ListFields():
        if field.name != "attribute":
            _copy_field(target, field.name, value)
            continue
        for attribute in value:
            copied = target.attribute.add()
            if attribute.type == onnx.AttributeProto.GRAPH:
                copied.name, copied.type = attribute.name, attribute.type
                _copy_graph(attribute.g, copied.g)
            else:
                copied.CopyFrom(attribute)


def _copy_tensor(source: TensorProto, target: TensorProto) -> None:
    # protobuf makes the bytes to tell their number. Elements of the smallest type have two bits.
    if is_external(source) or element_count(source) > 4 * KEPT_BYTES or source.ByteSize() > KEPT_BYTES:
        target.name, target.data_type = source.name, source.data_type
        target.dims.extend(source.dims)
        target.data_location = TensorProto.EXTERNAL
        target.external_data.add(key="location", value="left-out")
    else:
        target.CopyFrom(source)


def _copy_field(target: object, name: str, value: object) -> None:
    if hasattr(value, "CopyFrom") and not hasattr(value, "append"):
        getattr(target, name).CopyFrom(value)
    elif hasattr(value, "extend"):
        getattr(target, name).extend(value)
    else:
        setattr(target, name, value)
