"""Copy a model deeply without the initializers that are going to be removed."""

from collections.abc import Container

import onnx
from google.protobuf.message import Message
from google.protobuf.unknown_fields import UnknownFieldSet


def copy_model(proto: onnx.ModelProto, dropped: Container[str]) -> onnx.ModelProto:
    """Copy a model deeply without the main graph's initializers ``dropped``.

    Their bytes are never copied: protobuf frees memory only with the whole message, so weights that were copied and
    then deleted would stay in memory as long as the result. A model with fields that this onnx package does not know is
    copied as a whole, because only CopyFrom keeps such fields; the caller then removes the initializers.
    """
    copy = onnx.ModelProto()
    if not dropped or has_unknown_fields(proto) or has_unknown_fields(proto.graph):
        copy.CopyFrom(proto)
        return copy
    copy_fields(proto, copy, left_out="graph")
    copy_fields(proto.graph, copy.graph, left_out="initializer")
    copy.graph.initializer.extend(tensor for tensor in proto.graph.initializer if tensor.name not in dropped)
    return copy


def has_unknown_fields(message: Message) -> bool:
    """Whether a message has fields that this onnx package does not know."""
    return len(UnknownFieldSet(message)) > 0


def copy_fields(source: Message, target: Message, left_out: str) -> None:
    """Copy every field that is set except one, whose bytes are never copied."""
    for field, value in source.ListFields():
        if field.name == left_out:
            continue
        if field.is_repeated:
            getattr(target, field.name).extend(value)
        elif isinstance(value, Message):
            getattr(target, field.name).CopyFrom(value)
        else:
            setattr(target, field.name, value)
