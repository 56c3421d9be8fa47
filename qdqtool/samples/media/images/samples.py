"""Image files as samples: one batch at a time is decoded and preprocessed."""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from qdqtool.errors import UsageError
from qdqtool.numerics.dtypes import Array
from qdqtool.samples.media.batches import Row, batched
from qdqtool.samples.media.files import IMAGE
from qdqtool.samples.media.images.decode import decode
from qdqtool.samples.media.images.geometry import fit
from qdqtool.samples.media.images.options import ImagePreprocessing
from qdqtool.samples.media.images.resolve import ImageInput
from qdqtool.samples.media.images.tensor import in_type, to_values
from qdqtool.samples.media.labels import labels_of
from qdqtool.samples.sample import Sample


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
        labels = self.labels or (None,) * len(self.files)
        rows = (
            Row({self.taken.spec.name: self._values(file)}, label, IMAGE.name_in(self.root, file))
            for file, label in zip(self.files, labels, strict=True)
        )
        return batched(rows, self.taken.batch)

    def with_labels(self) -> "ImageSamples":
        """Return the same samples with the label of each image.

        Raises:
            NoLabelsError: There are no folders of classes, and no CSV file.
            UsageError: The labels do not fit the images.
        """
        return replace(self, labels=labels_of(IMAGE, self.root, self.files, self.labels_file))

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
