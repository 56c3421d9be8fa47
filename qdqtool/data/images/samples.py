"""Image files as samples: one batch at a time is decoded and preprocessed."""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from qdqtool.data.images.decode import decode
from qdqtool.data.images.geometry import fit
from qdqtool.data.images.labels import csv_labels, folder_labels
from qdqtool.data.images.options import ImagePreprocessing
from qdqtool.data.images.resolve import ImageInput
from qdqtool.data.images.tensor import in_type, to_values
from qdqtool.data.sample import Sample
from qdqtool.errors import UsageError
from qdqtool.numerics.dtypes import Array


@dataclass(frozen=True, slots=True, kw_only=True)
class ImageSamples:
    """The images of a folder as samples, in batches where the input has a fixed one.

    Attributes:
        root: The folder, or the one file.
        files: The image files.
        taken: The input that they fill.
        preprocessing: How they become its values.
        labels_file: A CSV file with labels; None where labels are the names of folders.
        labels: The label of each file; None where they were not requested.
    """

    root: Path
    files: tuple[Path, ...]
    taken: ImageInput
    preprocessing: ImagePreprocessing
    labels_file: Path | None = None
    labels: tuple[int, ...] | None = None

    def __iter__(self) -> Iterator[Sample]:
        rows = self.taken.batch or 1
        for start in range(0, len(self.files), rows):
            arrays = [self._values(file) for file in self.files[start : start + rows]]
            filler = rows - len(arrays)
            array = np.stack([*arrays, *arrays[-1:] * filler]) if self.taken.batch is not None else arrays[0]
            labels = None if self.labels is None else np.array(self.labels[start : start + rows], np.int64)
            yield Sample({self.taken.spec.name: array}, batch=rows, filler=filler, labels=labels)

    def with_labels(self) -> "ImageSamples":
        """Return the same samples with the label of each image.

        Raises:
            NoLabelsError: There are no folders of classes, and no CSV file.
            UsageError: The labels do not fit the images.
        """
        if self.labels_file is not None:
            return replace(self, labels=csv_labels(self.labels_file, self.root, self.files))
        return replace(self, labels=folder_labels(self.root, self.files))

    def _values(self, file: Path) -> Array:
        return in_type(image_values(file, self.preprocessing), self.taken.spec.dtype, self.taken.spec.name)


def image_values(file: Path, how: ImagePreprocessing) -> Array:
    """Return the preprocessed values of an image file.

    Returns:
        float32 of shape [C, H, W] or [H, W, C], by the layout.

    Raises:
        UsageError: The file cannot be decoded, or has another size where ``resize`` is ``none``.
        CapabilityError: Pillow is not installed.
    """
    image = decode(file, grey=how.channels == "grey")
    try:
        return to_values(np.asarray(fit(image, how, file)), how)
    except MemoryError:
        raise UsageError(f"{file} becomes too large when it is resized: {image.height}x{image.width} pixels") from None
