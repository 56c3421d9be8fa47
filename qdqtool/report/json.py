"""Any report as JSON with a ``schema_version``."""

import dataclasses
from typing import Any

import msgspec

SCHEMA_VERSION = 1


def render(report: Any) -> str:
    """A report dataclass as indented JSON.

    Field names are the keys; numbers that JSON cannot spell (NaN, infinities) become null.

    Args:
        report: A dataclass whose fields msgspec can encode.
    """
    fields = {field.name: getattr(report, field.name) for field in dataclasses.fields(report)}
    encoded = msgspec.json.encode({"schema_version": SCHEMA_VERSION, **fields}, enc_hook=_encode)
    return msgspec.json.format(encoded, indent=2).decode()


def _encode(value: Any) -> Any:
    if isinstance(value, tuple | frozenset | set):
        return list(value)
    return str(value)
