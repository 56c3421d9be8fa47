"""Find the files of one kind below a folder, in the order of folders and names."""

import os
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import NamedTuple

import numpy as np

from qdqtool.numerics.dtypes import Array
from qdqtool.samples.sample import Sample


class Row(NamedTuple):
    """One row of a batch.

    Attributes:
        arrays: Its arrays by input name, without a batch dimension.
        label: Its label; None where none was requested.
        file: The file it was made of; empty where nobody asks for it.
    """

    arrays: Mapping[str, Array]
    label: int | None = None
    file: str = ""


def batched(rows: Iterable[Row], batch: int | None) -> Iterator[Sample]:
    """Yield one sample for each batch of rows. The last row is repeated where the batch is not full.

    Args:
        rows: The rows.
        batch: Rows of one run; None where the inputs have no batch dimension.
    """
    size, source = batch or 1, iter(rows)
    while group := list(islice(source, size)):
        filler = size - len(group)
        arrays = [row.arrays for row in group]
        labels = [row.label for row in group if row.label is not None]
        yield Sample(
            {name: _joined([row[name] for row in arrays], filler, batch) for name in arrays[0]},
            batch=size,
            filler=filler,
            labels=np.array(labels, np.int64) if labels else None,
            files=tuple(dict.fromkeys(row.file for row in group if row.file)),
        )


def _joined(rows: list[Array], filler: int, batch: int | None) -> Array:
    return np.stack([*rows, *rows[-1:] * filler]) if batch is not None else rows[0]


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
