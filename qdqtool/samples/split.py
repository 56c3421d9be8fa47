"""Divide samples into those that may choose something and those that only measure.

What is chosen with data looks better on that data than on any other. So a part of the samples is held back: no scale,
method, factor or layer is chosen with it, and the accuracy that is printed is measured on it.
"""

import hashlib
from dataclasses import dataclass

from qdqtool.samples.feeds import Feeds

SHARE = 5
"""One sample in this many is held back."""

ENOUGH_TO_DIVIDE, LEAST_HELD = 8, 4
"""From so many samples on, at least so many are held back."""

FEWEST_TO_DIVIDE = 4
"""Of fewer samples than this none is held back: calibration needs them all."""

SEED = 0


@dataclass(frozen=True, slots=True)
class Split:
    """Which samples choose, and which are held back, by number in the data.

    Attributes:
        choosing: Numbers of the samples that may choose something, ascending; never empty if there are samples.
        held: Numbers of the samples that only measure, ascending; empty where there are too few samples.
    """

    choosing: tuple[int, ...]
    held: tuple[int, ...]

    def choosing_of(self, feeds: Feeds) -> Feeds:
        """Return the samples that may choose something."""
        return feeds.only(self.choosing) if self.held else feeds

    def held_of(self, feeds: Feeds) -> Feeds | None:
        """Return the samples that only measure; None where there are none."""
        return feeds.only(self.held) if self.held else None


def undivided(count: int) -> Split:
    """Hold back none: for data beside which there is other data to measure on."""
    return Split(tuple(range(count)), ())


def split_samples(count: int, seed: int = SEED) -> Split:
    """Hold back a fifth of the samples: at least 4 of 8 and more, one of 4 to 7, none of fewer.

    The samples are drawn without a pattern, since data is often sorted or alternates. The same count and seed give the
    same samples on every machine.

    Args:
        count: Number of samples.
        seed: Another seed draws other samples.
    """
    wanted = _held(count)
    # A digest, and not NumPy's generator, whose numbers may differ between its versions.
    order = sorted(range(count), key=lambda number: hashlib.sha256(f"{seed}:{number}".encode()).digest())
    return Split(tuple(sorted(order[wanted:])), tuple(sorted(order[:wanted])))


def _held(count: int) -> int:
    if count < FEWEST_TO_DIVIDE:
        return 0
    least = LEAST_HELD if count >= ENOUGH_TO_DIVIDE else 1
    return max(count // SHARE, least)
