"""Make samples from image files: decode and preprocess one batch at a time."""

import io
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from qdqtool.errors import UsageError
from qdqtool.models.graph.io.output import check_output, write_output
from qdqtool.numerics.dtypes import Array
from qdqtool.samples.media.files import IMAGE, BatchRow, batched, labels_of
from qdqtool.samples.media.images.decode import decode
from qdqtool.samples.media.images.geometry import fit, in_type, to_pixels, to_values
from qdqtool.samples.media.images.resolve import ImageInput
from qdqtool.samples.preprocessing import ImagePreprocessing
from qdqtool.samples.sample import Sample

if TYPE_CHECKING:
    from PIL import Image, ImageDraw


@dataclass(frozen=True, slots=True, kw_only=True)
class ImageSamples:
    """The images of a folder as samples. If the input has a fixed batch size, each sample is a batch of images.

    Attributes:
        root: The folder, or the single file.
        files: The image files.
        taken: The input that the images fill.
        preprocessing: How an image becomes values of the input.
        labels_file: A CSV file with labels; None if folder names are the labels.
        labels: The label of each file; None if labels were not requested.
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
            BatchRow({self.taken.spec.name: self._values(file)}, label, IMAGE.name_in(self.root, file))
            for file, label in zip(self.files, labels, strict=True)
        )
        return batched(rows, self.taken.batch)

    def with_labels(self) -> "ImageSamples":
        """Return the same samples with the label of each image."""
        return replace(self, labels=labels_of(IMAGE, self.root, self.files, self.labels_file))

    def _values(self, file: Path) -> Array:
        return in_type(image_values(file, self.preprocessing), self.taken.spec.dtype, self.taken.spec.name)


def image_values(file: Path, how: ImagePreprocessing) -> Array:
    """Return the preprocessed values of an image file.

    Returns:
        float32 of shape [C, H, W] or [H, W, C], depending on the layout.

    Raises:
        UsageError: The file cannot be decoded, or its size is wrong and ``resize`` is ``none``.
    """
    image = decode(file, grey=how.channels == "grey")
    try:
        return to_values(np.asarray(fit(image, how, file)), how)
    except MemoryError:
        raise UsageError(f"{file} becomes too large when it is resized: {image.height}x{image.width} pixels") from None


MOST_SHOWN, COLUMNS = 16, 4
SIDE = 256
"""Largest side of an image in the preview, in pixels."""
MARGIN, LINE = 8, 14
INK, PAPER, FRAME = (0, 0, 0), (255, 255, 255), (255, 0, 255)
MOST_CHARACTERS = 40


def write_preview(samples: ImageSamples, limit: int | None, path: Path) -> None:
    """Write a PNG that shows the first images after preprocessing, with names and the smallest and largest value.

    Normalization and channel order are undone, so the preview shows natural colors. It shows cropping, padding and
    size. A thin frame marks the edge of the input.

    Args:
        samples: The images.
        limit: Number of images that the job uses; None for all.
        path: The PNG file.
    """
    check_output(path, list(samples.files))
    root = samples.root if samples.root.is_dir() else samples.root.parent
    cells = [_cell(file, root, samples.preprocessing) for file in samples.files[: min(limit or MOST_SHOWN, MOST_SHOWN)]]
    buffer = io.BytesIO()
    _sheet(cells, str(samples.preprocessing)).save(buffer, format="PNG")
    write_output(path, buffer.getvalue())


def _cell(file: Path, root: Path, how: ImagePreprocessing) -> "Image.Image":
    from PIL import Image, ImageDraw

    values = image_values(file, how)
    pixels = to_pixels(values, how)
    image = Image.fromarray(np.broadcast_to(pixels, (*pixels.shape[:2], 3)).copy())
    # Small inputs are enlarged by whole factors, so that each pixel stays a square.
    factor = max(1, SIDE // max(image.size)) if max(image.size) <= SIDE else SIDE / max(image.size)
    size = max(1, round(image.width * factor)), max(1, round(image.height * factor))
    shown = image.resize(size, Image.Resampling.NEAREST if factor >= 1 else Image.Resampling.BOX)
    cell = Image.new("RGB", (SIDE + MARGIN, shown.height + 2 + 2 * LINE + MARGIN), PAPER)
    cell.paste(shown, (1, 1))
    draw = ImageDraw.Draw(cell)
    draw.rectangle((0, 0, shown.width + 1, shown.height + 1), outline=FRAME)
    _write(draw, (0, shown.height + 2), _shortened(file.relative_to(root).as_posix()))
    _write(draw, (0, shown.height + 2 + LINE), f"{values.min():.4g} to {values.max():.4g}")
    return cell


def _sheet(cells: list["Image.Image"], title: str) -> "Image.Image":
    from PIL import Image, ImageDraw

    columns = min(COLUMNS, len(cells))
    rows = -(-len(cells) // columns)
    width, height = cells[0].size
    sheet = Image.new("RGB", (max(columns, 2) * width + MARGIN, rows * height + 3 * LINE + MARGIN), PAPER)
    draw = ImageDraw.Draw(sheet)
    for number, line in enumerate(_halves(title)):
        _write(draw, (MARGIN, 4 + number * LINE), line)
    for number, cell in enumerate(cells):
        sheet.paste(cell, (MARGIN + number % columns * width, 3 * LINE + number // columns * height))
    return sheet


def _halves(title: str) -> list[str]:
    """Return the title as two lines: first geometry, then numbers."""
    words = title.split(", ")
    cut = next((at for at, word in enumerate(words) if ".." in word), len(words))
    return [", ".join(words[:cut]), ", ".join(words[cut:])]


def _shortened(name: str) -> str:
    return name if len(name) <= MOST_CHARACTERS else f"...{name[3 - MOST_CHARACTERS :]}"


def _write(draw: "ImageDraw.ImageDraw", place: tuple[int, int], text: str) -> None:
    # In some builds of Pillow the built-in font has only ASCII characters.
    draw.text(place, text.encode("ascii", "replace").decode(), fill=INK)
