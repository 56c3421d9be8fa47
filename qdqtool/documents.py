"""Reports as JSON documents with a ``schema_version``."""

import dataclasses
from typing import Any

import msgspec

SCHEMA_VERSION = 1


def encode_report(report: Any) -> bytes:
    """Encode a report dataclass as indented JSON.

    Field names are the keys; numbers that JSON cannot spell (NaN, infinities) become null.

    Args:
        report: A dataclass whose fields msgspec can encode.
    """
    fields = {field.name: getattr(report, field.name) for field in dataclasses.fields(report)}
    return encode_document({"schema_version": SCHEMA_VERSION, **fields})


def encode_document(document: dict[str, Any]) -> bytes:
    """Encode the keys and values of a document as indented JSON."""
    return msgspec.json.format(msgspec.json.encode(document, enc_hook=_encode), indent=2)


def report_document(report: Any) -> dict[str, Any]:
    """Return a report dataclass as what a JSON parser makes of its JSON: dicts, lists, strings, numbers and None."""
    found: dict[str, Any] = msgspec.json.decode(encode_report(report))
    return found


def _encode(value: Any) -> Any:
    if isinstance(value, tuple | frozenset | set):
        return list(value)
    return str(value)
