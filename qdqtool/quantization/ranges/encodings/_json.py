"""Helpers of the JSON formats."""

import json
from typing import Any, NoReturn

import msgspec
import numpy as np
import numpy.typing as npt

from qdqtool.errors import UsageError

# Bytes in which the opening brace must occur; leading white space of any length is legal JSON.
MAX_PEEK = 1 << 16
MAX_ODD_BYTES = 1 << 24
"""Largest nonstandard JSON (with NaN) that is read: only Python's slow reader accepts it."""
MAX_RANK = 8
"""Largest rank of an array of numbers; weights with scales have fewer dimensions."""


def top_level_keys(data: bytes) -> frozenset[str]:
    """Return the keys of a JSON object; empty for anything else."""
    return frozenset(_peek(data, msgspec.Raw))


def peek_values(data: bytes) -> list[Any]:
    """Return the values of a JSON object, to recognize its format; empty for anything else."""
    return list(_peek(data, Any).values())


def _peek(data: bytes, of: Any) -> dict[str, Any]:
    """Decode a JSON object, also one with NaN as Python writes it; empty for anything else."""
    if not data[:MAX_PEEK].lstrip().startswith(b"{"):
        return {}
    try:
        return msgspec.json.decode(data, type=dict[str, of])
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        pass
    try:
        found = json.loads(data) if len(data) <= MAX_ODD_BYTES else None
    except (ValueError, RecursionError):
        return {}
    return found if isinstance(found, dict) else {}


def decode_object(data: bytes) -> dict[str, Any]:
    """Decode a JSON object in which no name occurs twice.

    Raises:
        UsageError: It is not such an object.
    """
    try:
        found = json.loads(data, object_pairs_hook=_unique, parse_constant=_no_constant)
    except RecursionError:
        raise UsageError("is not valid JSON: it is nested too deeply") from None
    except ValueError as error:
        raise UsageError(f"is not valid JSON: {error}") from None
    if not isinstance(found, dict):
        raise UsageError("is not valid JSON: it is no object")
    return found


def as_number(value: Any) -> float | None:
    """Convert a JSON number to float64, infinite beyond its range; None for anything else."""
    # bool is a subclass of int in Python. A JSON integer has any length, and float() raises OverflowError beyond
    # 1e308.
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    try:
        return float(value)
    except OverflowError:
        return float("inf")


def as_array(value: Any) -> npt.NDArray[np.float64] | None:
    """Convert a JSON number, or nested lists of them with equal lengths, to float64; None for anything else."""
    try:
        found = np.asarray(value)
    except (ValueError, RecursionError):
        return None
    if found.dtype.kind not in "iuf" or not found.size or found.ndim > MAX_RANK:
        return None
    return found.astype(np.float64)


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        names = [name for name, _ in pairs]
        twice = next(name for name in found if names.count(name) > 1)
        raise UsageError(f"has the name {twice[:80]!r} twice in one object")
    return found


def _no_constant(text: str) -> NoReturn:
    raise UsageError(f"holds {text}, which is no number of JSON")
