"""``.npz`` files: one array for each input; the first axis counts samples.

One sample is read at a time, and nothing is unpickled. :mod:`qdqtool.samples.columns` divides the rows into
runs.
"""

import contextlib
import zipfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from qdqtool.errors import UsageError
from qdqtool.samples.columns import (
    DAMAGED_ARCHIVE,
    StoredColumn,
    common_count,
    fit_labels,
    make_samples,
    read_column,
    read_rows,
    settle_columns,
)
from qdqtool.samples.sample import LABELS, NoLabelsError, Sample, labels_taken_error
from qdqtool.samples.signature import InputSpec, check_names

ACCEPTS = ".npz file"


def accepts(path: Path) -> bool:
    """Return whether ``path`` is a file with the suffix ``.npz``."""
    return path.suffix.lower() == ".npz" and path.is_file()


@dataclass(frozen=True, slots=True)
class NpzSamples:
    """The samples of one file."""

    path: Path
    columns: tuple[StoredColumn, ...]
    count: int
    labels: StoredColumn | None = None

    def __iter__(self) -> Iterator[Sample]:
        with contextlib.ExitStack() as stack:
            archive = stack.enter_context(_open(self.path))
            wanted = [*self.columns, *([self.labels] if self.labels is not None else [])]
            rows = {c.name: read_rows(stack.enter_context(archive.open(f"{c.name}.npy")), c) for c in wanted}
            labels = rows[LABELS] if self.labels is not None else None
            yield from make_samples(rows, self.columns, self.count, labels)

    def with_labels(self) -> "NpzSamples":
        """Return the same samples with labels from the array :data:`LABELS`: one row for each row of the inputs.

        Raises:
            NoLabelsError: The file has no such array.
        """
        names = [column.name for column in self.columns]
        if LABELS in names:
            raise labels_taken_error(self.path)
        with _open(self.path) as archive:
            if f"{LABELS}.npy" not in archive.namelist():
                keys = ", ".join(f"{name}=..." for name in names)
                raise NoLabelsError(
                    f"{self.path} has no labels for the metric",
                    hint=f"add them under the key '{LABELS}', integers: numpy.savez(file, {keys}, {LABELS}=...)",
                )
            spec = InputSpec(LABELS, np.dtype(np.int64), None)
            column = _column(archive, f"{LABELS}.npy", spec, self.path)
        return replace(self, labels=fit_labels(column, self.columns, self.count, self.path))


def read(path: Path, specs: Sequence[InputSpec]) -> NpzSamples:
    """Read the samples of an npz file."""
    with _open(path) as archive:
        members = {name.removesuffix(".npy"): name for name in archive.namelist() if name.endswith(".npy")}
        if LABELS not in [spec.name for spec in specs]:
            members.pop(LABELS, None)
        check_names(members, specs, str(path))
        held = [spec for spec in specs if spec.name in members]
        columns = tuple(_column(archive, members[spec.name], spec, path) for spec in held)
    columns = settle_columns(columns, held)
    return NpzSamples(path, columns, common_count(columns, path))


@contextlib.contextmanager
def _open(path: Path) -> Iterator[zipfile.ZipFile]:
    with readable(path), zipfile.ZipFile(path) as archive:
        yield archive


@contextlib.contextmanager
def readable(path: Path) -> Iterator[None]:
    """Turn every error while reading the archive inside the block into one message.

    Raises:
        UsageError: The archive is damaged or cannot be opened.
    """
    try:
        yield
    except DAMAGED_ARCHIVE as error:
        raise UsageError(f"{path} is not a readable .npz file: {error}") from None
    except OSError as error:
        raise UsageError(f"{path} cannot be read: {error.strerror or error}") from None


def _column(archive: zipfile.ZipFile, member: str, spec: InputSpec, path: Path) -> StoredColumn:
    with archive.open(member) as stream:
        return read_column(stream, archive.getinfo(member).file_size, spec, f"{path}: '{spec.name}'")
