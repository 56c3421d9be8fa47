"""What differs between two models, field by field, straight from the protobuf descriptors.

Elements of repeated fields are aligned by what identifies them (nodes by their outputs, initializers by their name),
so one node that was put in is one line and not a shift of all that follow it.
"""

from collections.abc import Callable, Hashable, Iterator
from typing import Any

import onnx
from google.protobuf.message import Message

_KEYS: dict[str, Callable[[Any], Hashable]] = {
    "NodeProto": lambda node: ",".join(node.output),
    "TensorProto": lambda tensor: tensor.name,
    "SparseTensorProto": lambda tensor: tensor.values.name,
    "ValueInfoProto": lambda value: value.name,
    "AttributeProto": lambda attribute: attribute.name,
    "StringStringEntryProto": lambda entry: entry.key,
    "OperatorSetIdProto": lambda entry: entry.domain,
    "FunctionProto": lambda function: f"{function.domain}::{function.name}:{function.overload}",
    "TensorAnnotation": lambda annotation: annotation.tensor_name,
}


def changed_fields(before: onnx.ModelProto, after: onnx.ModelProto) -> list[str]:
    """Every path that differs, sorted: ``+path`` came, ``-path`` went, ``path`` has another value.

    ``path (order)`` says that elements which both have stand in another order. When the models differ in something
    that no descriptor names, the path is ``(unknown fields)``.
    """
    paths = sorted(_message_changes("", before, after))
    same_bytes = before.SerializeToString(deterministic=True) == after.SerializeToString(deterministic=True)
    return paths if paths or same_bytes else ["(unknown fields)"]


def _message_changes(path: str, before: Message, after: Message) -> Iterator[str]:
    for descriptor in before.DESCRIPTOR.fields:
        name = descriptor.name
        here = f"{path}.{name}" if path else name
        if descriptor.is_repeated:
            yield from _repeated_changes(here, getattr(before, name), getattr(after, name))
        elif before.HasField(name) != after.HasField(name):
            yield ("+" if after.HasField(name) else "-") + here
        elif not before.HasField(name):
            continue
        elif isinstance(getattr(before, name), Message):
            yield from _message_changes(here, getattr(before, name), getattr(after, name))
        elif _bits(getattr(before, name)) != _bits(getattr(after, name)):
            yield here


def _repeated_changes(path: str, before: Any, after: Any) -> Iterator[str]:
    if not all(isinstance(item, Message) for item in (*before, *after)):
        if [_bits(item) for item in before] != [_bits(item) for item in after]:
            yield path
        return
    old, new = _keyed(before), _keyed(after)
    yield from (f"-{path}[{key}]" for key in old if key not in new)
    yield from (f"+{path}[{key}]" for key in new if key not in old)
    if [key for key in old if key in new] != [key for key in new if key in old]:
        yield f"{path} (order)"
    for key in old:
        if key in new:
            yield from _message_changes(f"{path}[{key}]", old[key], new[key])


def _keyed(items: Any) -> dict[Hashable, Message]:
    keyed: dict[Hashable, Message] = {}
    for index, item in enumerate(items):
        find = _KEYS.get(item.DESCRIPTOR.name)
        key = find(item) if find else index
        keyed[f"{key}#{index}" if key in keyed else key] = item
    return keyed


def _bits(value: Any) -> Any:
    return value.hex() if isinstance(value, float) else value
