"""The raw diff is what other tests rely on when they say that nothing else changed: it must see every change."""

from collections.abc import Iterator
from typing import Any

import onnx
import pytest
from google.protobuf.message import Message

from support.rawdiff import changed_fields
from support.rich_model import rich_model


def messages(message: Message) -> Iterator[Message]:
    """Every message below and including this one."""
    yield message
    for field, value in message.ListFields():
        if field.message_type is not None:
            for item in value if field.is_repeated else [value]:
                yield from messages(item)


def mutations(message: Message) -> Iterator[tuple[str, Any, Any]]:
    """Field, old and new value of one change to each scalar field of a message."""
    steps: dict[type, Any] = {str: "x", bytes: b"x", int: 1, float: 1.0}
    for field, value in message.ListFields():
        if field.message_type is None and not field.is_repeated and field.enum_type is None:
            yield field.name, value, value + steps[type(value)]


def test_equal_models_have_no_differences() -> None:
    assert changed_fields(rich_model(), rich_model()) == []


def test_a_change_to_any_kind_of_scalar_is_seen() -> None:
    before, after = rich_model(), rich_model()
    seen: set[str] = set()
    for message in messages(after):
        for name, old, new in mutations(message):
            kind = f"{message.DESCRIPTOR.name}.{name}"
            if kind not in seen:
                setattr(message, name, new)
                assert changed_fields(before, after), kind
                setattr(message, name, old)
                seen.add(kind)
    assert changed_fields(before, after) == []
    assert {
        "NodeProto.overload",
        "FunctionProto.doc_string",
        "StringStringEntryProto.value",
        "AttributeProto.f",
    } <= seen


def test_order_presence_and_unknown_fields_are_seen() -> None:
    before, after = rich_model(), rich_model()
    after.graph.initializer.reverse()
    assert changed_fields(before, after) == ["graph.initializer (order)"]
    after = rich_model()
    after.graph.node[0].ClearField("name")
    assert changed_fields(before, after) == ["-graph.node[conv].name"]
    after = rich_model()
    after.MergeFromString(b"\xfa\x3f\x03new")
    assert changed_fields(before, after) == ["(unknown fields)"]


@pytest.mark.parametrize("value", [0.0, -0.0])
def test_the_sign_of_zero_is_seen(value: float) -> None:
    one, other = onnx.ModelProto(), onnx.ModelProto()
    one.graph.node.add(output=["y"]).attribute.add(name="alpha", f=0.0)
    other.graph.node.add(output=["y"]).attribute.add(name="alpha", f=value)
    assert bool(changed_fields(one, other)) == (str(value) == "-0.0")
