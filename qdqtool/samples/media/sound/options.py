"""The preprocessing of sound as a user requests it, and as it is carried out."""

from dataclasses import dataclass
from typing import ClassVar, Literal, get_args

import msgspec

from qdqtool.errors import ArgumentError
from qdqtool.registry import suggestion

SampleRange = Literal["-1..1", "int16"]

RANGES: tuple[str, ...] = get_args(SampleRange)
FULL_SCALE = 32768
"""What 1.0 is in the range of int16."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SoundOptions:
    """How sound becomes an input, as requested. Each sample of an input is a window of a file.

    Attributes:
        rate: The rate in Hz that the network was trained with; files of another rate are resampled. A model does not
            say it, so it is required.
        length: Values of a window in time, where the model leaves them open.
        hop: Values from the start of a window to that of the next; None for windows that follow each other.
        sample_range: Whether full scale is 1.0 (``-1..1``, the default) or 32768 (``int16``).

    Raises:
        ArgumentError: A value is illegal.
    """

    rate: int | None = None
    length: int | None = None
    hop: int | None = None
    sample_range: SampleRange | None = None

    def __post_init__(self) -> None:
        for name in ("rate", "length", "hop"):
            value = getattr(self, name)
            if value is not None and value < 1:
                raise ArgumentError(f"{name} of sound is {value}; it must be at least 1")
        if self.sample_range is not None and self.sample_range not in RANGES:
            raise ArgumentError(
                f"sample_range is '{self.sample_range}'; it must be one of {', '.join(RANGES)}"
                f"{suggestion(self.sample_range, RANGES)}"
            )


class SoundPreprocessing(msgspec.Struct, frozen=True, kw_only=True, tag_field="kind", tag="sound"):
    """How sound became samples, with nothing left open.

    Attributes:
        rate: Rate in Hz.
        channels: 1 for the mean of all channels of a file, else the number of its channels.
        length: Values of a window in time.
        hop: Values from the start of a window to that of the next.
        sample_range: Whether full scale is 1.0 or 32768.
    """

    kind: ClassVar[str] = "sound"

    rate: int
    channels: int
    length: int
    hop: int
    sample_range: SampleRange

    def __str__(self) -> str:
        """One line for reports: ``16000 Hz, mono, windows of 512 every 512, -1..1``."""
        channels = "mono" if self.channels == 1 else f"{self.channels} channels"
        return f"{self.rate} Hz, {channels}, windows of {self.length} every {self.hop}, {self.sample_range}"
