"""Commands that reports advise, quoted so that they can be pasted; text reports and the page share them."""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Sequence

from qdqtool.accuracy.report import BlameReport, NoiseCause

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


MUCH_DB = 3.0
"""A cause that costs more makes more than half of the noise."""


def clipping_cause(blame: BlameReport) -> NoiseCause | None:
    """Return the activations whose ranges clip, where the output gains at least :data:`MUCH_DB` without them."""
    found = next((each for each in blame.causes if each.cause == "clipping activations"), None)
    if found is None or blame.whole_db is None:
        return None
    return found if found.undone_db is None or found.undone_db >= blame.whole_db + MUCH_DB else None
