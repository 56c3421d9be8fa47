"""Compute capabilities of GPUs: 8.9 is kept as 89."""

import re
from collections.abc import Iterable

from qdqtool.errors import ArgumentError

_SPELLING = re.compile(r"(?:sm_?)?(?P<major>\d{1,2})\.?(?P<minor>\d)", re.IGNORECASE)


def capability(text: str) -> int:
    """``8.6``, ``86`` or ``sm86`` as 86.

    Raises:
        ArgumentError: It is no compute capability.
    """
    match = _SPELLING.fullmatch(text.strip())
    if match is None:
        raise ArgumentError(
            f"'{text}' is no compute capability", hint="write it like 8.6, 86 or sm86; see `nvidia-smi`"
        )
    return int(match["major"] + match["minor"])


def capabilities(words: Iterable[str]) -> tuple[int, ...]:
    """Each word as :func:`capability` reads it, sorted, each once.

    Raises:
        ArgumentError: One is no compute capability.
    """
    return tuple(sorted(set(map(capability, words))))


def capability_name(number: int) -> str:
    """86 as ``8.6``."""
    return f"{number // 10}.{number % 10}"
