"""Commands that reports advise, quoted so that they can be pasted; text reports and the page share them."""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Sequence

from qdqtool.accuracy.report import BlameReport, NoiseCause

HINTED = 0.5
"""The first layers that together make this share of the noise are named, with options to exclude them."""

MOST_HINTED = 5

NEARLY_ALL = 0.999
"""The sum of shares that counts as all: shares are rounded, so their sum may be less than 1."""


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
    """Return how many of the first layers are needed to make half of the noise; at most :data:`MOST_HINTED`.

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
"""A cause that costs an output more dB than this makes more than half of its noise."""


def clipping_cause(blame: BlameReport) -> NoiseCause | None:
    """Return the activations whose ranges clip, if leaving them in float gains at least :data:`MUCH_DB`."""
    found = next((each for each in blame.causes if each.cause == "clipping activations"), None)
    if found is None or blame.whole_db is None:
        return None
    return found if found.undone_db is None or found.undone_db >= blame.whole_db + MUCH_DB else None
