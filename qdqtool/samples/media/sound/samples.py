"""Sound files as samples: windows of equal length, one file after the other."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from qdqtool.numerics.dtypes import Array
from qdqtool.samples.media.batches import Row, batched
from qdqtool.samples.media.files import SOUND
from qdqtool.samples.media.labels import labels_of
from qdqtool.samples.media.sound.decode import pieces
from qdqtool.samples.media.sound.options import FULL_SCALE, SoundPreprocessing
from qdqtool.samples.media.sound.resolve import SoundInput
from qdqtool.samples.sample import Sample


@dataclass(frozen=True, slots=True, kw_only=True)
class SoundSamples:
    """The windows of the sound files of a folder as samples, in batches where the input has a fixed one.

    Attributes:
        root: The folder, or the one file.
        files: The sound files.
        taken: The input that they fill.
        preprocessing: How they become its values.
        labels_file: A CSV file with labels; None where labels are the names of folders.
        labels: The label of each file; None where they were not requested.
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
        """Return the same samples with labels; each window has that of its file.

        Raises:
            NoLabelsError: There are no folders of classes, and no CSV file.
            UsageError: The labels do not fit the files.
        """
        return replace(self, labels=labels_of(SOUND, self.root, self.files, self.labels_file))

    def _rows(self) -> Iterator[Row]:
        how = self.preprocessing
        labels = self.labels or (None,) * len(self.files)
        for file, label in zip(self.files, labels, strict=True):
            for window in windows(pieces(file, how.rate, how.channels), how.length, how.hop):
                yield Row({self.taken.spec.name: self._values(window)}, label, SOUND.name_in(self.root, file))

    def _values(self, window: Array) -> Array:
        """Return a window of shape [N, C] in the shape, range and type of the input."""
        scaled = window * np.float32(FULL_SCALE) if self.preprocessing.sample_range == "int16" else window
        axis = self.taken.channel_axis
        shaped = scaled[:, 0] if axis is None else np.moveaxis(scaled, 1, axis)
        return np.ascontiguousarray(shaped, self.taken.spec.dtype)


def windows(parts: Iterable[Array], length: int, hop: int) -> Iterator[Array]:
    """Cut a sound into windows. Its end is left out where it fills no window; a shorter sound is filled with zeros.

    Args:
        parts: The sound in pieces of shape [frames, channels].
        length: Frames of a window.
        hop: Frames from the start of a window to that of the next.

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
