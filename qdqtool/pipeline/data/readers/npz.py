"""``.npz`` files: one array for each input, samples along the first axis.

An array of the input's rank holds batches one after another: a model with a fixed batch of 4 gets 4 rows a run, one
with a dynamic batch gets one row a run. An array with one axis more holds one complete input in each row; that is for
inputs whose first axis is no batch. Files are read a sample at a time; nothing is unpickled.
"""

import contextlib
import math
import zipfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO

import numpy as np

from qdqtool.errors import UsageError
from qdqtool.numerics.dtypes import Array
from qdqtool.pipeline.data.signature import InputSpec

ACCEPTS = ".npz file"
LABELS = "labels"
"""Key of the right answers that a test set may carry beside its inputs; no run takes it, unless it is an input."""


def accepts(path: Path) -> bool:
    """Whether ``path`` is named as an npz file."""
    return path.suffix.lower() == ".npz" and path.is_file()


@dataclass(frozen=True, slots=True)
class Column:
    """One array of the file, as its header describes it.

    Attributes:
        name: Its key.
        dtype: Its type.
        shape: Its shape.
        fortran: Whether it is stored column by column, and can only be read whole.
        rows: Rows that one run takes.
        batched: Whether those rows are a batch; else the one row is the whole input.
    """

    name: str
    dtype: np.dtype[np.generic]
    shape: tuple[int, ...]
    fortran: bool
    rows: int
    batched: bool

    @property
    def samples(self) -> int | None:
        """How many runs it is enough for; None for a scalar, which is the same in every run."""
        return self.shape[0] // self.rows if self.shape else None


@dataclass(frozen=True, slots=True)
class NpzSamples:
    """The samples of one file."""

    path: Path
    columns: tuple[Column, ...]
    count: int

    def __len__(self) -> int:
        return self.count

    def __iter__(self) -> Iterator[Mapping[str, Array]]:
        with contextlib.ExitStack() as stack:
            archive = stack.enter_context(_open(self.path))
            streams = [_rows(stack.enter_context(archive.open(f"{c.name}.npy")), c) for c in self.columns]
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
    counts = {column.name: column.samples for column in columns if column.samples is not None}
    if len(set(counts.values())) > 1:
        listed = ", ".join(f"{name} {count}" for name, count in counts.items())
        raise UsageError(f"{path} has a different number of samples for each input: {listed}")
    return NpzSamples(path, columns, next(iter(counts.values()), 1))


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
    place = f"{path}: '{spec.name}'"
    with archive.open(member) as stream:
        shape, fortran, dtype = _header(stream, place)
        stored = archive.getinfo(member).file_size - stream.tell()
    if dtype.hasobject:
        raise UsageError(f"{place} holds pickled Python objects, which are never loaded", hint="save a numeric array")
    if stored != math.prod(shape) * dtype.itemsize:
        raise UsageError(f"{place} is damaged: {stored} bytes of data for {dtype} {list(shape)}")
    rank = len(spec.shape) if spec.shape is not None else len(shape)
    batched = len(shape) == rank
    if not batched and len(shape) != rank + 1:
        raise UsageError(f"{place} has shape {list(shape)}; the model takes {spec}, with samples along the first axis")
    rows = _batch(spec) if batched else 1
    if batched and shape and shape[0] % rows:
        raise UsageError(f"{place} has {shape[0]} rows, no multiple of the model's batch of {rows}")
    return Column(spec.name, dtype, shape, fortran, rows, batched)


def _batch(spec: InputSpec) -> int:
    first = spec.shape[0] if spec.shape else None
    return first if isinstance(first, int) and first > 0 else 1


def _header(stream: IO[bytes], place: str) -> tuple[tuple[int, ...], bool, np.dtype[np.generic]]:
    try:
        version = np.lib.format.read_magic(stream)
        if version == (1, 0):
            return np.lib.format.read_array_header_1_0(stream)
        return np.lib.format.read_array_header_2_0(stream)
    except ValueError as error:
        raise UsageError(f"{place} is damaged: {error}") from None


def _rows(stream: IO[bytes], column: Column) -> Iterator[Array]:
    """What one run after the other takes from a column."""
    _header(stream, column.name)
    if not column.shape or column.fortran:
        flat = np.frombuffer(stream.read(), column.dtype)
        whole = flat.reshape(column.shape[::-1]).transpose() if column.fortran else flat.reshape(column.shape)
        yield from _slices(whole, column)
        return
    inner = column.shape[1:]
    size = column.rows * math.prod(inner) * column.dtype.itemsize
    while True:
        part = np.frombuffer(stream.read(size), column.dtype)
        yield part.reshape((column.rows, *inner) if column.batched else inner)


def _slices(whole: Array, column: Column) -> Iterator[Array]:
    if not column.shape:
        while True:
            yield whole
    for start in range(0, column.shape[0], column.rows):
        yield np.ascontiguousarray(whole[start : start + column.rows] if column.batched else whole[start])
