"""Any report as JSON with a ``schema_version``."""

import re
from typing import Any

import msgspec

from qdqtool.errors import is_unsafe
from qdqtool.results import encode

_NOT_PRINTABLE_ASCII = re.compile(r"[^\n -~]")


def render(report: Any) -> str:
    r"""Return a report dataclass as indented JSON.

    Field names are the keys; numbers that JSON cannot represent (NaN, infinities) become null. The text is safe to
    print: every control, format and unassigned character of a string becomes ``\uXXXX``.
    """
    return spell_unsafe(msgspec.json.format(encode(report), indent=2).decode())


def spell_unsafe(document: str) -> str:
    r"""Return the same JSON value with ``\uXXXX`` in place of characters that are unsafe on a terminal."""
    return _NOT_PRINTABLE_ASCII.sub(lambda found: _spelled(found[0]), document)


def _spelled(char: str) -> str:
    if not is_unsafe(char):
        return char
    units = char.encode("utf-16-be", "surrogatepass")
    return "".join(f"\\u{units[at]:02x}{units[at + 1]:02x}" for at in range(0, len(units), 2))
