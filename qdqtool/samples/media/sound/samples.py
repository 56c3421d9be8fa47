"""Make samples from sound files: windows of equal length from one file after the other."""

import contextlib
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from qdqtool.errors import CapabilityError, UsageError, plural
from qdqtool.numerics.dtypes import Array
from qdqtool.samples.media.files import SOUND, BatchRow, batched, labels_of
from qdqtool.samples.media.sound.resolve import SoundInput
from qdqtool.samples.preprocessing import SoundPreprocessing
from qdqtool.samples.sample import Sample

if TYPE_CHECKING:
    from soundfile import SoundFile

FULL_SCALE = 32768
"""The value 1.0 on the scale of int16."""

FORMATS = ("WAV", "WAVEX", "RF64", "FLAC", "OGG")
"""The formats that are decoded, as libsndfile names them."""

FRAMES = 1 << 16
"""Number of frames of a piece. A long sound is read in pieces, so it is never in memory as a whole."""

# libsndfile decodes a truncated WAV file up to its end and reports the fault only in a log. A declared size near 2^31
# or 2^32 means that the program could not update the header: such a file is complete.
_TOO_SHORT = re.compile(r"^data : (?P<declared>\d+) \(should be (?P<found>\d+)\)", re.MULTILINE)
_OPEN_SIZE = (1 << 31) - (1 << 16)

_MOVE = "replace it, or move it out of the folder"


def require_soundfile() -> None:
    """Check that the libraries that read sound are installed.

    Raises:
        CapabilityError: A library is missing.
    """
    try:
        import soundfile  # noqa: F401
        import soxr  # noqa: F401
    except (ImportError, OSError):  # OSError: soundfile without its libsndfile
        raise CapabilityError(
            "sound is read with soundfile and soxr, and one of them is not installed",
            hint="`pip install soundfile soxr`",
        ) from None


def pieces(file: Path, rate: int, channels: int) -> Iterator[Array]:
    """Yield a sound file piece by piece, converted to the given rate and number of channels.

    A file with another rate is resampled by soxr (quality HQ). One channel is the mean of all channels of the file.

    Yields:
        float32 of shape [frames, channels]; full scale is 1.0.
    """
    require_soundfile()
    import soxr

    with _readable(file), _opened(file, channels) as sound:
        blocks = (_mixed(block, channels) for block in sound.blocks(FRAMES, dtype="float32", always_2d=True))
        if sound.samplerate == rate:
            yield from blocks
            return
        stream = soxr.ResampleStream(sound.samplerate, rate, channels, dtype="float32", quality="HQ")
        yield from (stream.resample_chunk(block) for block in blocks)
        yield stream.resample_chunk(np.zeros((0, channels), np.float32), last=True)


@contextlib.contextmanager
def _opened(file: Path, channels: int) -> Iterator["SoundFile"]:
    from soundfile import SoundFile

    with SoundFile(file) as sound:
        if sound.format not in FORMATS:
            raise UsageError(f"{file} is {sound.format}, and not one of {', '.join(FORMATS)}", hint=_MOVE)
        cut = _TOO_SHORT.search(sound.extra_info)
        if cut and int(cut["found"]) < int(cut["declared"]) < _OPEN_SIZE:
            raise UsageError(f"{file} is cut off: it has {cut['found']} of {cut['declared']} bytes", hint=_MOVE)
        if sound.frames == 0:
            raise UsageError(f"{file} holds no sound", hint=_MOVE)
        if channels not in {1, sound.channels}:
            found = plural(sound.channels, "channel")
            raise UsageError(f"{file} has {found}, and the model takes {channels}", hint=_MOVE)
        yield sound


@contextlib.contextmanager
def _readable(file: Path) -> Iterator[None]:
    """Turn every error of libsndfile inside the block into one message."""
    from soundfile import SoundFileError

    try:
        yield
    except SoundFileError as error:
        if file.is_file() and file.stat().st_size == 0:
            raise UsageError(f"{file} is empty", hint=_MOVE) from None
        what = str(error).partition(": ")[2] or str(error)
        raise UsageError(f"{file} is damaged or no sound of a known format: {what}", hint=_MOVE) from None
    except OSError as error:
        raise UsageError(f"{file} cannot be read: {error.strerror or error}", hint=_MOVE) from None


def _mixed(block: Array, channels: int) -> Array:
    return block if block.shape[1] == channels else block.mean(axis=1, keepdims=True, dtype=np.float32)


@dataclass(frozen=True, slots=True, kw_only=True)
class SoundSamples:
    """The windows of sound files as samples; if the input has a fixed batch size, a sample is a batch of windows.

    Attributes:
        root: The folder, or the single file.
        files: The sound files.
        taken: The input that the windows fill.
        preprocessing: How sound becomes values of the input.
        labels_file: A CSV file with labels; None if folder names are the labels.
        labels: The label of each file; None if labels were not requested.
    """

    root: Path
    files: tuple[Path, ...]
    taken: SoundInput
    preprocessing: SoundPreprocessing
    labels_file: Path | None = None
    labels: tuple[int, ...] | None = None

    def __iter__(self) -> Iterator[Sample]:
        return batched(self._rows(), self.taken.batch)

    def with_labels(self) -> "SoundSamples":
        """Return the same samples with labels; each window has the label of its file."""
        return replace(self, labels=labels_of(SOUND, self.root, self.files, self.labels_file))

    def _rows(self) -> Iterator[BatchRow]:
        how = self.preprocessing
        labels = self.labels or (None,) * len(self.files)
        for file, label in zip(self.files, labels, strict=True):
            for window in windows(pieces(file, how.rate, how.channels), how.length, how.hop):
                yield BatchRow({self.taken.spec.name: self._values(window)}, label, SOUND.name_in(self.root, file))

    def _values(self, window: Array) -> Array:
        """Return a window of shape [N, C], converted to the shape, range and type of the input."""
        scaled = window * np.float32(FULL_SCALE) if self.preprocessing.sample_range == "int16" else window
        axis = self.taken.channel_axis
        shaped = scaled[:, 0] if axis is None else np.moveaxis(scaled, 1, axis)
        return np.ascontiguousarray(shaped, self.taken.spec.dtype)


def windows(parts: Iterable[Array], length: int, hop: int) -> Iterator[Array]:
    """Cut a sound into windows. An incomplete last window is dropped. A sound shorter than a window is padded with 0.

    Args:
        parts: The sound in pieces of shape [frames, channels].
        length: Frames of a window.
        hop: Frames from the start of one window to the start of the next.

    Yields:
        Arrays of shape [length, channels].
    """
    held: Array | None = None
    skip, is_first = 0, True
    for part in parts:
        kept = part[skip:]
        skip -= len(part) - len(kept)
        held = kept if held is None else np.concatenate([held, kept])
        while len(held) >= length and not skip:
            yield held[:length]
            is_first = False
            skip = max(0, hop - len(held))
            held = held[hop:]
    if is_first and held is not None and len(held):
        yield np.concatenate([held, np.zeros((length - len(held), held.shape[1]), held.dtype)])
