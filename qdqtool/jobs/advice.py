"""Commands that reports advise, quoted so that they can be pasted; text reports and the page share them."""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Sequence

HINTED = 0.5
"""Share of the noise: the first layers that together reach it are named, with options to exclude them."""

MOST_HINTED = 5

NEARLY_ALL = 0.999
"""Shares are rounded."""


def command(name: str, *words: str) -> str:
    """Return a command line of qdqtool, quoted for a shell."""
    return shlex.join(["qdqtool", name, *words])


def excluding(patterns: Iterable[str]) -> tuple[str, ...]:
    """Return the options that leave nodes in float."""
    return tuple(word for pattern in patterns for word in ("--nodes-to-exclude", pattern))


def leaves_some(shares: Iterable[float]) -> bool:
    """Return whether anything stays quantized without layers that have these shares of the multiply-accumulates."""
    return sum(shares) < NEARLY_ALL


def dominant_layers(shares: Sequence[float]) -> int:
    """Return how many layers, from the first, together make half of the noise; at most :data:`MOST_HINTED`.

    Args:
        shares: Share of each layer in the noise, 0 to 1, the largest first.
    """
    total, named = 0.0, 0
    for share in shares[:MOST_HINTED]:
        if total >= HINTED:
            break
        total, named = total + share, named + 1
    return named
