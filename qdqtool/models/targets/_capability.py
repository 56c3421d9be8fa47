"""Compute capabilities of GPUs, stored as numbers: 89 for 8.9."""

import re
from collections.abc import Iterable

from qdqtool.errors import ArgumentError

_SPELLING = re.compile(r"(?:sm_?)?(?P<major>\d{1,2})\.?(?P<minor>\d)", re.IGNORECASE)


def capability(text: str) -> int:
    """Parse ``8.6``, ``86`` or ``sm86`` to 86.

    Raises:
        ArgumentError: The text is not a compute capability.
    """
    match = _SPELLING.fullmatch(text.strip())
    if match is None:
        raise ArgumentError(
            f"'{text}' is no compute capability",
            hint="write it like 8.6, 86 or sm86; `nvidia-smi --query-gpu=compute_cap --format=csv` shows it",
        )
    return int(match["major"] + match["minor"])


def capabilities(words: Iterable[str]) -> tuple[int, ...]:
    """Parse each word with :func:`capability`; return the results sorted, each once.

    Raises:
        ArgumentError: A word is not a compute capability.
    """
    return tuple(sorted(set(map(capability, words))))


def capability_name(number: int) -> str:
    """Spell 86 as ``8.6``."""
    return f"{number // 10}.{number % 10}"
