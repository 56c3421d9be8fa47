"""The samples on which accuracy is measured, and what they had to do with the choices that were made."""

from dataclasses import dataclass

from qdqtool.data import Feeds
from qdqtool.data.split import Split

TOO_FEW = "too few to hold any back"
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
    """Return the held-back part of calibration data; all samples, with the reason, where none is held back."""
    held = split.held_of(feeds)
    if held is None:
        return MeasuringData(feeds=feeds, reason=TOO_FEW)
    return MeasuringData(feeds=held, held_back=True)
