"""A contact sheet of the first images as the network sees them, for the eye."""

import io
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from qdqtool.models.graph.io.output import check_output, write_output
from qdqtool.samples.media.images.options import ImagePreprocessing
from qdqtool.samples.media.images.samples import ImageSamples, image_values
from qdqtool.samples.media.images.tensor import to_pixels

if TYPE_CHECKING:
    from PIL import Image, ImageDraw

MOST_SHOWN, COLUMNS = 16, 4
SIDE = 256
"""Largest side of an image on the sheet, in pixels."""
MARGIN, LINE = 8, 14
INK, PAPER, FRAME = (0, 0, 0), (255, 255, 255), (255, 0, 255)
MOST_CHARACTERS = 40


def write_preview(samples: ImageSamples, limit: int | None, path: Path) -> None:
    """Write a PNG that shows the first images after preprocessing, with their names and the smallest and largest value.

    Normalization and the order of channels are undone, since they cannot be seen: what is seen is the cut, the filling
    and the size. A thin frame marks the edge of the input.

    Args:
        samples: The images.
        limit: Number of images that are used; None for all.
        path: The PNG.

    Raises:
        UsageError: An image cannot be decoded, or the path is an image of the data.
        OutputError: The file cannot be written.
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
    # Small inputs are shown enlarged, in whole pixels.
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
    """Return the title on two lines: geometry, then numbers."""
    words = title.split(", ")
    cut = next((at for at, word in enumerate(words) if ".." in word), len(words))
    return [", ".join(words[:cut]), ", ".join(words[cut:])]


def _shortened(name: str) -> str:
    return name if len(name) <= MOST_CHARACTERS else f"...{name[3 - MOST_CHARACTERS :]}"


def _write(draw: "ImageDraw.ImageDraw", place: tuple[int, int], text: str) -> None:
    # The built-in font has no letters beyond ASCII in every build of Pillow.
    draw.text(place, text.encode("ascii", "replace").decode(), fill=INK)
