"""Find the files of one kind below a folder, in the order of folders and names."""

import os
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True, kw_only=True)
class FileKind:
    """Files that are known by their suffix.

    Attributes:
        noun: The word for one of them in messages; its plural ends in s.
        common: The suffixes that messages name, in lower case with the dot.
        others: Further suffixes.
    """

    noun: str
    common: tuple[str, ...]
    others: tuple[str, ...] = ()

    def names(self, path: Path) -> bool:
        """Whether a path is named as such a file and is not hidden."""
        return path.suffix.lower() in (*self.common, *self.others) and not path.name.startswith(".")

    def is_in(self, folder: Path) -> bool:
        """Whether there is such a file in a folder or below it."""
        return next(self._walk(folder), None) is not None

    def files(self, path: Path) -> tuple[Path, ...]:
        """Return the files below a folder, in the order of folders and names, numbers by value; or the one file.

        Hidden files and folders, and files with other suffixes, are left out.
        """
        if path.is_file():
            return (path,)
        found = (file.relative_to(path) for file in self._walk(path))
        ordered = sorted(found, key=lambda file: [by_number(Path(part)) for part in file.parts])
        return tuple(path / file for file in ordered)

    def name_in(self, path: Path, file: Path) -> str:
        """Return how reports call a file below a path: relative to the folder, with ``/`` between the parts."""
        return file.name if path == file else file.relative_to(path).as_posix()

    def _walk(self, folder: Path) -> Iterator[Path]:
        for root, folders, names in os.walk(folder):
            folders[:] = [name for name in folders if not name.startswith(".")]
            yield from (file for name in names if self.names(file := Path(root, name)))


IMAGE = FileKind(
    noun="image",
    common=(".jpg", ".png", ".webp", ".bmp"),
    others=(".jpeg", ".jfif", ".gif", ".tif", ".tiff", ".ppm", ".pgm"),
)
SOUND = FileKind(noun="sound file", common=(".wav", ".flac", ".ogg"))


def by_number(path: Path) -> tuple[tuple[str, int], ...]:
    """Return a sort key that compares numbers by value: ``set_2`` comes before ``set_10``."""
    words = re.findall(r"([^0-9]*)([0-9]*)", path.name)
    return (*((text, int(digits) if digits else -1) for text, digits in words), (path.name, 0))
