"""Decode a sound file in pieces, with every fault of the file as one message."""

import contextlib
import re
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from qdqtool.errors import CapabilityError, UsageError, plural
from qdqtool.numerics.dtypes import Array

if TYPE_CHECKING:
    from soundfile import SoundFile

FORMATS = ("WAV", "WAVEX", "RF64", "FLAC", "OGG")
"""The formats that are decoded, in the words of libsndfile."""

FRAMES = 1 << 16
"""Frames of one piece: an hour of sound is never in memory at once."""

# libsndfile decodes a WAV file that was cut off up to its end, and says so in its log only. A size near 2^31 or 2^32 is
# what a program writes that cannot go back to the header: such a file is whole.
_TOO_SHORT = re.compile(r"^data : (?P<declared>\d+) \(should be (?P<found>\d+)\)", re.MULTILINE)
_OPEN_SIZE = (1 << 31) - (1 << 16)

_MOVE = "replace it, or move it out of the folder"


def require_soundfile() -> None:
    """Check that the libraries that read sound are installed.

    Raises:
        CapabilityError: One is not.
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
    """Yield a sound file in pieces, at a rate and with a number of channels; all pieces together are the whole file.

    A file of another rate is resampled by soxr in its quality HQ. One channel is the mean of all channels of the file.

    Args:
        file: The file.
        rate: Rate of the pieces in Hz.
        channels: Number of channels of the pieces.

    Yields:
        float32 of shape [frames, channels]; full scale is 1.0.

    Raises:
        UsageError: The file is empty, cut off, damaged or no sound, or has another number of channels.
        CapabilityError: soundfile or soxr is not installed.
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
