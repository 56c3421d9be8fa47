"""What the JSON formats have in common."""

from typing import Any

import msgspec

from qdqtool.errors import UsageError

MAX_PEEK = 1 << 16


def top_level_keys(data: bytes) -> frozenset[str]:
    """The keys of a JSON object; empty for anything else."""
    if not data[:MAX_PEEK].lstrip().startswith(b"{"):
        return frozenset()
    try:
        return frozenset(msgspec.json.decode(data, type=dict[str, msgspec.Raw]))
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return frozenset()


def decode_object(data: bytes) -> dict[str, Any]:
    """A JSON object.

    Raises:
        UsageError: It is none.
    """
    try:
        return msgspec.json.decode(data, type=dict[str, Any])
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise UsageError(f"is not valid JSON: {error}") from None


def as_number(value: Any) -> float | None:
    """A JSON number as float64, infinite beyond its range; None for anything else."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    try:
        return float(value)
    except OverflowError:
        return float("inf")
