"""Divide samples into selection samples, for all choices, and hold-out samples, only for measuring.

A choice looks better on the data that it was made with than on other data. Therefore some samples are held out: no
scale, method, factor or layer is chosen with them, and the printed accuracy is measured on them.
"""

import hashlib
from dataclasses import dataclass

from qdqtool.samples.feeds import Feeds
from qdqtool.samples.sample import sample_digest

SHARE = 5
"""One of this many samples is held out."""

ENOUGH_TO_DIVIDE, LEAST_HELD = 8, 4
"""If there are at least ``ENOUGH_TO_DIVIDE`` samples, at least ``LEAST_HELD`` are held out."""

FEWEST_TO_DIVIDE = 4
"""With at least this many samples, at least one is held out. With fewer, calibration uses all."""

SEED = 0


@dataclass(frozen=True, slots=True)
class Split:
    """The selection samples and the hold-out samples, by number in the data.

    Attributes:
        choosing: Numbers of the selection samples, ascending; never empty if there are samples.
        held: Numbers of the hold-out samples, ascending; empty if there are too few samples.
    """

    choosing: tuple[int, ...]
    held: tuple[int, ...]

    def choosing_of(self, feeds: Feeds) -> Feeds:
        """Return the selection samples."""
        return feeds.only(self.choosing) if self.held else feeds

    def held_of(self, feeds: Feeds) -> Feeds | None:
        """Return the hold-out samples, or None if there are none."""
        return feeds.only(self.held) if self.held else None


def undivided(count: int) -> Split:
    """Return a split without hold-out samples, for data that comes with separate validation data."""
    return Split(tuple(range(count)), ())


def split_samples(count: int, seed: int = SEED) -> Split:
    """Hold out a fifth of the samples. From 8 samples on, at least 4 are held out; from 4 to 7, one; below 4, none.

    The choice is pseudorandom, since data is often sorted or alternates. The same count and seed give the same choice
    on every machine.
    """
    wanted = _held(count)
    # Sorted by digests instead of NumPy's generator, whose numbers may differ between NumPy versions.
    order = sorted(range(count), key=lambda number: hashlib.sha256(f"{seed}:{number}".encode()).digest())
    return Split(tuple(sorted(order[wanted:])), tuple(sorted(order[:wanted])))


def _held(count: int) -> int:
    if count < FEWEST_TO_DIVIDE:
        return 0
    least = LEAST_HELD if count >= ENOUGH_TO_DIVIDE else 1
    return max(count // SHARE, least)


TOO_FEW = "too few to hold any out"
ALL_EQUAL = "each hold-out sample equals a selection sample"
THEIRS = "the ranges were found on them"
UNKNOWN = "whether the ranges were found on them is not known"
SAME_DATA = "the validation data is the calibration data"
NOT_RECORDED = "resumed from a file that does not list the hold-out samples"


@dataclass(frozen=True, slots=True, kw_only=True)
class MeasuringData:
    """The samples on which accuracy is measured. One of the last three attributes is set, and shows their kind.

    Attributes:
        feeds: The samples.
        held_back: Whether they are hold-out samples of the calibration data, with which nothing was chosen.
        validation: The file, folder or script of validation data; None for calibration samples.
        reason: Why calibration samples are used although choices may have been made with them.
    """

    feeds: Feeds
    held_back: bool = False
    validation: str | None = None
    reason: str = ""


def measuring_part(feeds: Feeds, split: Split) -> MeasuringData:
    """Return the hold-out samples of calibration data. If none are usable, return other samples, and the reason.

    A sample that equals a selection sample does not count as a hold-out sample.
    """
    held = split.held_of(feeds)
    if held is None:
        return MeasuringData(feeds=feeds, reason=TOO_FEW)
    if not feeds.description.repeated:
        return MeasuringData(feeds=held, held_back=True)
    new = _unlike_choosing(feeds, split)
    return MeasuringData(feeds=feeds.only(new), held_back=True) if new else MeasuringData(feeds=held, reason=ALL_EQUAL)


def _unlike_choosing(feeds: Feeds, split: Split) -> list[int]:
    """Return the numbers of the hold-out samples that differ from every selection sample."""
    digests = [sample_digest(sample) for sample in feeds]
    chose = {digests[number] for number in split.choosing}
    return [number for number in split.held if digests[number] not in chose]
