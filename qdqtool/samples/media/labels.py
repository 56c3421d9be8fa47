"""Labels of images and sound files: from the names of folders, or from a CSV file."""

import csv
from collections.abc import Mapping, Sequence
from pathlib import Path

from qdqtool.errors import UsageError
from qdqtool.samples.media.files import FileKind
from qdqtool.samples.sample import NoLabelsError


def labels_of(kind: FileKind, root: Path, files: Sequence[Path], table: Path | None) -> tuple[int, ...]:
    """Return the label of each file: from a CSV file, or from the names of folders where there is none."""
    return folder_labels(kind, root, files) if table is None else csv_labels(kind, table, root, files)


def folder_labels(kind: FileKind, root: Path, files: Sequence[Path]) -> tuple[int, ...]:
    """Return for each file the number of its class: that of the first folder below the root, as in torchvision.

    Classes are numbered from 0 in the order of their names as text.

    Args:
        kind: The kind of the files.
        root: The folder of the data.
        files: Its files.

    Raises:
        NoLabelsError: The files lie in no folders.
        UsageError: A file lies beside the folders, a folder has none of them, or the folders are named by numbers that
            are not those of the classes.
    """
    outside = [file for file in files if root in {file, file.parent}]
    if len(outside) == len(files):
        raise NoLabelsError(f"{root} has no right answers to measure by", hint=_hint(kind))
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
    """Return for each file its label in a CSV file with the rows ``file,label``; a header is optional.

    Args:
        kind: The kind of the files.
        path: The CSV file. Its files are paths below the root.
        root: The folder of the data.
        files: Its files.

    Raises:
        UsageError: The file cannot be read, a label is no integer, a file is named twice or is not there, or one has
            no label.
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
