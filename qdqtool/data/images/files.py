"""Find the image files of a folder."""

import os
from collections.abc import Iterator
from pathlib import Path

from qdqtool.data.columns import by_number

COMMON = (".jpg", ".png", ".webp", ".bmp")
"""The suffixes that messages name."""

SUFFIXES = (*COMMON, ".jpeg", ".jfif", ".gif", ".tif", ".tiff", ".ppm", ".pgm")


def is_image(path: Path) -> bool:
    """Whether a path is named as an image file and is not hidden."""
    return path.suffix.lower() in SUFFIXES and not path.name.startswith(".")


def has_images(folder: Path) -> bool:
    """Whether there is an image file in a folder or below it."""
    return next(_walk(folder), None) is not None


def image_files(path: Path) -> tuple[Path, ...]:
    """Return the image files below a folder, in the order of folders and names, numbers by value; or the one file.

    Hidden files and folders, and files with other suffixes, are left out.
    """
    if path.is_file():
        return (path,)
    found = (file.relative_to(path) for file in _walk(path))
    ordered = sorted(found, key=lambda file: [by_number(Path(part)) for part in file.parts])
    return tuple(path / file for file in ordered)


def _walk(folder: Path) -> Iterator[Path]:
    for root, folders, names in os.walk(folder):
        folders[:] = [name for name in folders if not name.startswith(".")]
        yield from (file for name in names if is_image(file := Path(root, name)))
