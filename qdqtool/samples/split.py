"""Divide samples into selection samples, which may choose something, and hold-out samples, which only measure.

A choice looks better on the data that it was made with than on any other. So a part of the samples is held out: no
scale, method, factor or layer is chosen with it, and the accuracy that is printed is measured on it.
"""

import hashlib
from dataclasses import dataclass

from qdqtool.samples.feeds import Feeds
from qdqtool.samples.sample import sample_digest

SHARE = 5
"""One sample in this many is held out."""

ENOUGH_TO_DIVIDE, LEAST_HELD = 8, 4
"""From so many samples on, at least so many are held out."""

FEWEST_TO_DIVIDE = 4
"""The least number of samples of which one is held out: of fewer, calibration needs all."""

SEED = 0


@dataclass(frozen=True, slots=True)
class Split:
    """The selection samples and the hold-out samples, by number in the data.

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
    """Hold out none: for data beside which there is other data to measure on."""
    return Split(tuple(range(count)), ())


def split_samples(count: int, seed: int = SEED) -> Split:
    """Hold out a fifth of the samples: at least 4 of 8 and more, one of 4 to 7, none of fewer.

    The samples are drawn without a pattern, since data is often sorted or alternates. The same count and seed give the
    same samples on every machine.
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


TOO_FEW = "too few to hold any out"
ALL_EQUAL = "each hold-out sample equals a selection sample"
THEIRS = "the ranges were found on them"
UNKNOWN = "whether the ranges were found on them is not known"
SAME_DATA = "the validation data is the calibration data"
NOT_RECORDED = "resumed from a file that does not list the hold-out samples"


@dataclass(frozen=True, slots=True, kw_only=True)
class MeasuringData:
    """The samples on which accuracy is measured. Exactly one of the last three attributes says what they are.

    Attributes:
        feeds: The samples.
        held_back: Whether they are the hold-out samples of the calibration data: nothing was chosen with them.
        validation: The file, folder or script of samples of their own; None where they are calibration data.
        reason: Why they are calibration samples that may have chosen something, in words.
    """

    feeds: Feeds
    held_back: bool = False
    validation: str | None = None
    reason: str = ""


def measuring_part(feeds: Feeds, split: Split) -> MeasuringData:
    """Return the hold-out samples of calibration data; without any, samples that may have chosen, with the reason.

    A sample that equals a selection sample is not held out, wherever it is in the data.
    """
    held = split.held_of(feeds)
    if held is None:
        return MeasuringData(feeds=feeds, reason=TOO_FEW)
    if not feeds.description.repeated:
        return MeasuringData(feeds=held, held_back=True)
    new = _unlike_choosing(feeds, split)
    return MeasuringData(feeds=feeds.only(new), held_back=True) if new else MeasuringData(feeds=held, reason=ALL_EQUAL)


def _unlike_choosing(feeds: Feeds, split: Split) -> list[int]:
    """Return the numbers of the hold-out samples that equal no selection sample."""
    digests = [sample_digest(sample) for sample in feeds]
    chose = {digests[number] for number in split.choosing}
    return [number for number in split.held if digests[number] not in chose]
