"""Find the files of one kind below a folder, and the label of each file."""

import csv
import os
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import NamedTuple

import numpy as np

from qdqtool.errors import UsageError
from qdqtool.numerics.dtypes import Array
from qdqtool.samples.sample import NoLabelsError, Sample
from qdqtool.samples.signature import InputSpec, needed

SCRIPT = "a Python script gives any input: its load_data() yields a dict of arrays for each run"
"""The hint if files of this kind cannot fill an input."""


def only_input(specs: Sequence[InputSpec], fills: str, hint: str = "") -> InputSpec:
    """Return the single input that files fill.

    Args:
        specs: The inputs of the model.
        fills: The beginning of the message: the content of the files, and the word for filling an input.
        hint: Advice that is given before the advice to use a script.

    Raises:
        UsageError: The model needs no input, or several inputs.
    """
    found = needed(specs)
    if len(found) == 1:
        return found[0]
    names = ", ".join(spec.name for spec in found) or "none"
    raise UsageError(
        f"{fills} one input, and the model has {len(found)}: {names}",
        hint=f"{hint}a Python script gives all inputs: its load_data() yields a dict of arrays for each run",
    )


def settled_length(option: str, given: int | None, known: int | None, taken: str, unknown: UsageError) -> int:
    """Return the length of a sample.

    Args:
        option: The option that sets the length.
        given: The value of the option.
        known: The length that the model requires; None if the model allows any length.
        taken: Description of the model's inputs, for messages.
        unknown: The error to raise if neither the option nor the model gives a length.

    Raises:
        UsageError: The option contradicts the model, or the length is unknown.
    """
    if known is not None and given not in {None, known}:
        raise UsageError(
            f"{option} {given} contradicts the model, which takes {taken}",
            hint=f"leave {option} out: the length is taken from the model",
        )
    found = known if known is not None else given
    if found is None:
        raise unknown
    return found


class BatchRow(NamedTuple):
    """One row of a batch.

    Attributes:
        arrays: Arrays by input name, without a batch dimension.
        label: The label of the row; None if labels were not requested.
        file: The file that the row comes from; empty if the file is not needed.
    """

    arrays: Mapping[str, Array]
    label: int | None = None
    file: str = ""


def batched(rows: Iterable[BatchRow], batch: int | None) -> Iterator[Sample]:
    """Yield one sample for each batch of rows. An incomplete last batch is padded with its last row.

    Args:
        rows: The rows.
        batch: Rows in each run; None if the inputs have no batch dimension.
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
    """A kind of file that is recognized by the suffix.

    Attributes:
        noun: Singular noun for messages; the plural adds an s.
        common: The suffixes that messages list, in lower case and with the dot.
        others: Other accepted suffixes.
    """

    noun: str
    common: tuple[str, ...]
    others: tuple[str, ...] = ()

    def names(self, path: Path) -> bool:
        """Return whether a path has a suffix of this kind and is not hidden."""
        return path.suffix.lower() in (*self.common, *self.others) and not path.name.startswith(".")

    def is_in(self, folder: Path) -> bool:
        """Return whether a file of this kind is in a folder or below it."""
        return next(self._walk(folder), None) is not None

    def files(self, path: Path) -> tuple[Path, ...]:
        """Return the files below a folder, sorted by name with numbers compared by value; or the single file.

        Hidden files, hidden folders and files with other suffixes are skipped.

        Raises:
            UsageError: A file is no regular file, or a link out of the folder.
        """
        if path.is_file():
            return (path,)
        found = (file.relative_to(path) for file in self._walk(path))
        ordered = sorted(found, key=lambda file: [by_number(Path(part)) for part in file.parts])
        return only_inside(path, [path / file for file in ordered])

    def name_in(self, path: Path, file: Path) -> str:
        """Return the name of a file in reports: its path relative to the folder ``path``, with ``/`` as separator."""
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


def only_inside(folder: Path, files: Iterable[Path]) -> tuple[Path, ...]:
    """Return the files, all regular and in the folder: links in a folder must not make other files readable.

    Raises:
        UsageError: A file is a link out of the folder, a pipe, a device, or a link to nothing.
    """
    root, found = folder.resolve(), tuple(files)
    for file in found:
        if not file.is_file():
            raise UsageError(f"{file} is no regular file", hint="move it out of the folder")
        if not file.resolve().is_relative_to(root):
            raise UsageError(f"{file} is a link to a file outside {folder}", hint="replace it by a copy of the file")
    return found


def by_number(path: Path) -> tuple[tuple[str, int], ...]:
    """Return a sort key that compares numbers by value: ``set_2`` is before ``set_10``."""
    words = re.findall(r"([^0-9]*)([0-9]*)", path.name)
    return (*((text, int(digits) if digits else -1) for text, digits in words), (path.name, 0))


def labels_of(kind: FileKind, root: Path, files: Sequence[Path], table: Path | None) -> tuple[int, ...]:
    """Return the label of each file: from the CSV file, or from folder names if there is no CSV file."""
    return folder_labels(kind, root, files) if table is None else csv_labels(kind, table, root, files)


def folder_labels(kind: FileKind, root: Path, files: Sequence[Path]) -> tuple[int, ...]:
    """Return the class number of each file. The class is the first folder below the root, as in torchvision.

    Classes are numbered from 0. Their names are sorted as text.

    Raises:
        NoLabelsError: No file is in a folder below the root.
        UsageError: Some files are in no folder, a folder has no files, or the names of folders are numbers other than
            the class numbers.
    """
    outside = [file for file in files if root in {file, file.parent}]
    if len(outside) == len(files):
        raise NoLabelsError(f"{root} has no labels for the metric", hint=_hint(kind))
    if outside:
        raise UsageError(f"{outside[0]} lies beside the folders of the classes in {root}", hint=_hint(kind))
    classes = _classes(kind, root)
    return tuple(classes[file.relative_to(root).parts[0]] for file in files)


def _hint(kind: FileKind) -> str:
    return (
        f"put the {kind.noun}s of each class into a folder of its own, or give `--labels FILE.csv` with rows FILE,LABEL"
    )


def _classes(kind: FileKind, root: Path) -> Mapping[str, int]:
    names = sorted(entry.name for entry in root.iterdir() if entry.is_dir() and not entry.name.startswith("."))
    for name in names:
        if not kind.is_in(root / name):
            raise UsageError(
                f"{root / name} has no {kind.noun}s, so that the numbers of the classes are not certain",
                hint="move the folder away, or give `--labels FILE.csv`",
            )
    classes = {name: number for number, name in enumerate(names)}
    if all(name.isdecimal() for name in names):
        for name, number in classes.items():
            if int(name) != number:
                raise UsageError(
                    f"folder '{name}' in {root} would be class {number}: folders are numbered in the order of their "
                    "names as text",
                    hint="give names of equal length from 0 on, as 00 to 11; or give `--labels FILE.csv`",
                )
    return classes


def csv_labels(kind: FileKind, path: Path, root: Path, files: Sequence[Path]) -> tuple[int, ...]:
    """Return the label of each file, read from a CSV file with the rows ``file,label``; a header is optional.

    Raises:
        UsageError: The CSV file cannot be read, a label is no integer, or a file has no label. Or a row repeats a file,
            or names a file that does not exist.
    """
    found = _read(path)
    base = root if root.is_dir() else root.parent
    names = [file.relative_to(base).as_posix() for file in files]
    for name in found:
        if name not in set(names):
            raise UsageError(
                f"{path} names '{name}', which is no {kind.noun} of {root}",
                hint=f"files are paths below that folder, such as '{names[0]}'",
            )
    missing = [name for name in names if name not in found]
    if missing:
        raise UsageError(
            f"{path} has no label for '{missing[0]}' and {len(missing) - 1} other {kind.noun}s of {root}"
            if len(missing) > 1
            else f"{path} has no label for '{missing[0]}' of {root}",
            hint=f"add a row for each {kind.noun}",
        )
    return tuple(found[name] for name in names)


def _read(path: Path) -> Mapping[str, int]:
    try:
        with path.open(newline="", encoding="utf-8-sig") as stream:
            reader = csv.reader(stream)
            rows = [(reader.line_num, row) for row in reader if row]
    except OSError as error:
        raise UsageError(f"labels {path} cannot be read: {error.strerror or error}") from None
    except (csv.Error, UnicodeDecodeError) as error:
        raise UsageError(f"labels {path} is no CSV file: {error}") from None
    if rows and len(rows[0][1]) == 2 and not _is_integer(rows[0][1][1]):
        rows = rows[1:]
    found: dict[str, int] = {}
    for line, row in rows:
        if len(row) != 2 or not _is_integer(row[1]):
            raise UsageError(f"{path}, line {line}: '{','.join(row)}' is not FILE,LABEL with an integer as label")
        name = Path(row[0].strip()).as_posix()
        if name in found:
            raise UsageError(f"{path}, line {line}: '{name}' has a label already")
        found[name] = int(row[1])
    return found


def _is_integer(text: str) -> bool:
    word = text.strip().removeprefix("-")
    return word.isascii() and word.isdecimal()
