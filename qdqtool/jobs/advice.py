"""Commands that reports advise, spelled as they are pasted: text reports and the page share them."""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Sequence

HINTED = 0.5
"""The first layers that make so much of the noise together are named with the options that leave them in float."""

MOST_HINTED = 5


def command(name: str, *words: str) -> str:
    """Return a command line of qdqtool, quoted for a shell."""
    return shlex.join(["qdqtool", name, *words])


def excluding(patterns: Iterable[str]) -> tuple[str, ...]:
    """Return the words that leave nodes in float."""
    return tuple(word for pattern in patterns for word in ("--nodes-to-exclude", pattern))


def dominant_layers(shares: Sequence[float]) -> int:
    """Return how many layers, from the first, make half of the noise together; at most :data:`MOST_HINTED`.

    Args:
        shares: Share of the noise of each layer, of 1, the largest first.
    """
    total, named = 0.0, 0
    for share in shares[:MOST_HINTED]:
        if total >= HINTED:
            break
        total, named = total + share, named + 1
    return named
