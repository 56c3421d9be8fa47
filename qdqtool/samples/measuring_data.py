"""The samples on which accuracy is measured, and what they had to do with the choices that were made."""

from dataclasses import dataclass

from qdqtool.samples import Feeds, sample_digest
from qdqtool.samples.split import Split

TOO_FEW = "too few to hold any back"
ALL_EQUAL = "each one that is held back equals one that chose"
THEIRS = "the ranges were found on them"
UNKNOWN = "whether the ranges were found on them is not known"
SAME_DATA = "the validation data is the calibration data"
NOT_RECORDED = "resumed from a file that does not tell which samples are held back"


@dataclass(frozen=True, slots=True, kw_only=True)
class MeasuringData:
    """The samples on which accuracy is measured. Exactly one of the last three attributes says what they are.

    Attributes:
        feeds: The samples.
        held_back: Whether they are the held-back part of the calibration data: nothing was chosen with them.
        validation: The file, folder or script of samples of their own; None where they are calibration data.
        reason: Why they are calibration samples that may have chosen something, in words.
    """

    feeds: Feeds
    held_back: bool = False
    validation: str | None = None
    reason: str = ""


def measuring_part(feeds: Feeds, split: Split) -> MeasuringData:
    """Return the held-back part of calibration data; without one, samples that may have chosen, with the reason.

    A sample that equals one of the choosing part is not held back, wherever it stands in the data.
    """
    held = split.held_of(feeds)
    if held is None:
        return MeasuringData(feeds=feeds, reason=TOO_FEW)
    if not feeds.description.repeated:
        return MeasuringData(feeds=held, held_back=True)
    new = _unlike_choosing(feeds, split)
    return MeasuringData(feeds=feeds.only(new), held_back=True) if new else MeasuringData(feeds=held, reason=ALL_EQUAL)


def _unlike_choosing(feeds: Feeds, split: Split) -> list[int]:
    """Return the numbers of the held-back samples that equal none of the choosing part."""
    digests = [sample_digest(sample) for sample in feeds]
    chose = {digests[number] for number in split.choosing}
    return [number for number in split.held if digests[number] not in chose]
