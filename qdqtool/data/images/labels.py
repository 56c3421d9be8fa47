"""Labels of image files: from the names of folders, or from a CSV file."""

import csv
from collections.abc import Mapping, Sequence
from pathlib import Path

from qdqtool.data.images.files import has_images
from qdqtool.data.sample import NoLabelsError
from qdqtool.errors import UsageError

LABEL_HINT = "put the images of each class into a folder of its own, or give `--labels FILE.csv` with rows FILE,LABEL"


def folder_labels(root: Path, files: Sequence[Path]) -> tuple[int, ...]:
    """Return for each file the number of its class: that of the first folder below the root, as in torchvision.

    Classes are numbered from 0 in the order of their names as text.

    Args:
        root: The folder of the data.
        files: Its image files.

    Raises:
        NoLabelsError: The files lie in no folders.
        UsageError: A file lies beside the folders, a folder has no images, or the folders are named by numbers that are
            not the numbers of the classes.
    """
    outside = [file for file in files if root in {file, file.parent}]
    if len(outside) == len(files):
        raise NoLabelsError(f"{root} has no right answers to measure by", hint=LABEL_HINT)
    if outside:
        raise UsageError(f"{outside[0]} lies beside the folders of the classes in {root}", hint=LABEL_HINT)
    classes = _classes(root)
    return tuple(classes[file.relative_to(root).parts[0]] for file in files)


def _classes(root: Path) -> Mapping[str, int]:
    names = sorted(entry.name for entry in root.iterdir() if entry.is_dir() and not entry.name.startswith("."))
    for name in names:
        if not has_images(root / name):
            raise UsageError(
                f"{root / name} has no images, so that the numbers of the classes are not certain",
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


def csv_labels(path: Path, root: Path, files: Sequence[Path]) -> tuple[int, ...]:
    """Return for each file its label in a CSV file with the rows ``file,label``; a header is optional.

    Args:
        path: The CSV file. Its files are paths below the root.
        root: The folder of the data.
        files: Its image files.

    Raises:
        UsageError: The file cannot be read, a label is no integer, a file is named twice or is not there, or an image
            has no label.
    """
    found = _read(path)
    base = root if root.is_dir() else root.parent
    names = [file.relative_to(base).as_posix() for file in files]
    for name in found:
        if name not in set(names):
            raise UsageError(
                f"{path} names '{name}', which is no image of {root}",
                hint=f"files are paths below that folder, such as '{names[0]}'",
            )
    missing = [name for name in names if name not in found]
    if missing:
        raise UsageError(
            f"{path} has no label for '{missing[0]}' and {len(missing) - 1} other images of {root}"
            if len(missing) > 1
            else f"{path} has no label for '{missing[0]}' of {root}",
            hint="add a row for each image",
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
