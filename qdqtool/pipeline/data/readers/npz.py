"""``.npz`` files: one array for each input, samples along the first axis.

Files are read a sample at a time; nothing is unpickled. How rows become runs stands in
:mod:`qdqtool.pipeline.data.readers._columns`.
"""

import contextlib
import zipfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from qdqtool.errors import UsageError
from qdqtool.numerics.dtypes import Array
from qdqtool.pipeline.data.readers._columns import Column, common_count, read_column, read_rows
from qdqtool.pipeline.data.signature import InputSpec

ACCEPTS = ".npz file"
LABELS = "labels"
"""Key of the right answers that a test set may carry beside its inputs; no run takes it, unless it is an input."""


def accepts(path: Path) -> bool:
    """Whether ``path`` is named as an npz file."""
    return path.suffix.lower() == ".npz" and path.is_file()


@dataclass(frozen=True, slots=True)
class NpzSamples:
    """The samples of one file."""

    path: Path
    columns: tuple[Column, ...]
    count: int

    def __iter__(self) -> Iterator[Mapping[str, Array]]:
        with contextlib.ExitStack() as stack:
            archive = stack.enter_context(_open(self.path))
            streams = [read_rows(stack.enter_context(archive.open(f"{c.name}.npy")), c) for c in self.columns]
            for _ in range(self.count):
                yield {column.name: next(rows) for column, rows in zip(self.columns, streams, strict=True)}


def read(path: Path, specs: Sequence[InputSpec]) -> NpzSamples:
    """The samples of an npz file.

    Raises:
        UsageError: It is no npz file, holds Python objects, or its arrays are of different lengths.
    """
    from qdqtool.pipeline.data.feeds import check_names

    with _open(path) as archive:
        members = {name.removesuffix(".npy"): name for name in archive.namelist() if name.endswith(".npy")}
        if LABELS not in [spec.name for spec in specs]:
            members.pop(LABELS, None)
        check_names(members, specs, str(path))
        columns = tuple(_column(archive, members[spec.name], spec, path) for spec in specs)
    return NpzSamples(path, columns, common_count(columns, path))


@contextlib.contextmanager
def _open(path: Path) -> Iterator[zipfile.ZipFile]:
    try:
        with zipfile.ZipFile(path) as archive:
            yield archive
    except (zipfile.BadZipFile, EOFError, NotImplementedError, RuntimeError) as error:
        raise UsageError(f"{path} is not a readable .npz file: {error}") from None
    except OSError as error:
        raise UsageError(f"{path} cannot be read: {error.strerror or error}") from None


def _column(archive: zipfile.ZipFile, member: str, spec: InputSpec, path: Path) -> Column:
    with archive.open(member) as stream:
        return read_column(stream, archive.getinfo(member).file_size, spec, f"{path}: '{spec.name}'")
