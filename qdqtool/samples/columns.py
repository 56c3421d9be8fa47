"""Read NumPy array files one run at a time; a column holds one input for all samples.

An array with the rank of the input is a sequence of batches. A model with a fixed batch of 4 gets 4 rows in each run; a
model with a dynamic batch gets one row. An incomplete last batch is padded with its last row. In an array with one more
axis, each row is one complete input. This form is for inputs whose first axis is not a batch.
"""

import itertools
import math
import tokenize
import zipfile
import zlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import IO

import numpy as np

from qdqtool.errors import UsageError
from qdqtool.numerics.dtypes import Array
from qdqtool.samples.sample import LABELS, Sample
from qdqtool.samples.signature import InputSpec

_BLOCK = 1 << 27
"""Bytes of rows of an array in Fortran order that are in memory. Each further block reads the file once more."""
_CHUNK = 1 << 24
"""Bytes that are read at once for a block."""

# NumPy evaluates the header of an array file as Python. It uses tokenize to remove the suffix L of Python 2 integers.
DAMAGED_ARRAY = (ValueError, SyntaxError, tokenize.TokenError)
"""The errors that NumPy raises for a damaged array file."""
# zipfile raises NotImplementedError for unknown compression, RuntimeError for an encrypted member, and ValueError for a
# member with a negative position in the file.
DAMAGED_ARCHIVE = (zipfile.BadZipFile, zlib.error, EOFError, NotImplementedError, RuntimeError, *DAMAGED_ARRAY)
"""The errors that zipfile and NumPy raise for a damaged ``.npz`` file."""


@dataclass(frozen=True, slots=True)
class StoredColumn:
    """One stored array, as its file header describes it.

    Attributes:
        name: Name of the input that the array is for.
        dtype: Type of the array.
        shape: Shape of the array.
        fortran: Whether the array is stored in Fortran order, so that the elements of a row are not together.
        rows: Number of rows that one run reads.
        batched: Whether these rows are a batch. Otherwise a run reads one row, which is the whole input.
        fill: Whether an incomplete last batch is padded with its last row.
    """

    name: str
    dtype: np.dtype[np.generic]
    shape: tuple[int, ...]
    fortran: bool
    rows: int
    batched: bool
    fill: bool = True

    @property
    def samples(self) -> int | None:
        """The number of runs that the rows of the array make; None for a scalar, which is the same in every run."""
        if not self.shape:
            return None
        # An array with 0 rows (such as a cache that is empty at first) is the complete input of one run.
        return -(-self.shape[0] // self.rows) if self.rows else 1

    @property
    def filler(self) -> int:
        """The number of rows that are missing in the last batch."""
        return -self.shape[0] % self.rows if self.shape and self.rows else 0


def read_column(stream: IO[bytes], size: int, spec: InputSpec, place: str) -> StoredColumn:
    """Read the header of an array file and describe its array.

    Raises:
        UsageError: The file is damaged or holds Python objects, or the rank of the array does not fit the input.
    """
    shape, fortran, dtype = _header(stream, place)
    stored = size - stream.tell()
    # Python objects are stored as a pickle, and loading a pickle runs code from the file.
    if dtype.hasobject:
        raise UsageError(f"{place} holds pickled Python objects, which are never loaded", hint="save a numeric array")
    if stored != math.prod(shape) * dtype.itemsize:
        raise UsageError(f"{place} is damaged: {stored} bytes of data for {dtype} {list(shape)}")
    return replace(make_column(spec, dtype, shape, place), fortran=fortran)


def make_column(spec: InputSpec, dtype: np.dtype[np.generic], shape: tuple[int, ...], place: str) -> StoredColumn:
    """Describe an array that holds the samples of one input.

    Raises:
        UsageError: The rank of the array does not fit the input.
    """
    rank = len(spec.shape) if spec.shape is not None else len(shape)
    batched = len(shape) == rank
    if not batched and len(shape) != rank + 1:
        raise UsageError(
            f"{place} has shape {list(shape)}; the model takes {spec}, with samples along the first axis",
            hint="add the batch axis first: array[None]" if len(shape) == rank - 1 else None,
        )
    return StoredColumn(spec.name, dtype, shape, False, spec.batch if batched else 1, batched)


def settle_columns(columns: tuple[StoredColumn, ...], specs: Sequence[InputSpec]) -> tuple[StoredColumn, ...]:
    """Return the columns. If their numbers of runs differ, they become a single run, provided that the arrays fit."""
    if len({column.samples for column in columns} - {None}) > 1:
        return as_one_run(columns, specs) or columns
    return columns


def fit_labels(labels: StoredColumn, columns: Sequence[StoredColumn], count: int, source: object) -> StoredColumn:
    """Return the labels, divided into runs as the inputs are.

    Raises:
        UsageError: The labels and the inputs have different numbers of rows.
    """
    if not labels.shape:
        raise UsageError(f"{source}: '{LABELS}' is one number; it must have a row for each row of the inputs")
    for rows in sorted({column.rows for column in columns if column.shape} or {1}, reverse=True):
        fitted = replace(labels, rows=rows)
        if fitted.samples == count and fitted.filler in {column.filler for column in columns}:
            return replace(fitted, fill=False)
    counts = ", ".join(f"{column.name} {column.shape[0]}" for column in columns if column.shape)
    raise UsageError(
        f"{source}: '{LABELS}' has {labels.shape[0]} rows, but the inputs have other numbers of rows: {counts}"
    )


def common_count(columns: Sequence[StoredColumn], source: object) -> int:
    """Return the number of runs, which must be the same for all columns.

    Raises:
        UsageError: The columns have different numbers of runs.
    """
    counts = {column.name: column.samples for column in columns if column.samples is not None}
    if len(set(counts.values())) > 1:
        listed = ", ".join(f"{name} {count}" for name, count in counts.items())
        raise UsageError(f"{source} has a different number of samples for each input: {listed}")
    return next(iter(counts.values()), 1)


def as_one_run(columns: Sequence[StoredColumn], specs: Sequence[InputSpec]) -> tuple[StoredColumn, ...] | None:
    """Return the columns as the inputs of one run, or None if the arrays do not fit as inputs.

    The arrays fit if each has the declared rank and static dimensions, and if dimensions with the same name have the
    same extent. A dynamic first dimension must have a name. Example: the nodes and edges of a graph network.
    """
    named: dict[str, int] = {}
    for column, spec in zip(columns, specs, strict=True):
        if spec.shape is None or len(spec.shape) != len(column.shape) or (spec.shape and spec.shape[0] is None):
            return None
        for extent, declared in zip(column.shape, spec.shape, strict=True):
            wanted = named.setdefault(declared, extent) if isinstance(declared, str) else declared
            if wanted not in {None, extent}:
                return None
    return tuple(replace(column, rows=column.shape[0] if column.shape else 1) for column in columns)


def make_samples(
    rows: Mapping[str, Iterator[Array]],
    columns: Sequence[StoredColumn],
    count: int,
    labels: Iterator[Array] | None = None,
) -> Iterator[Sample]:
    """Yield the sample of each run. The last sample also has the number of padded rows in its batch.

    Args:
        rows: By column name, an iterator over the arrays of the runs.
        columns: The columns of the inputs.
        count: Number of runs.
        labels: An iterator over the labels of the runs, if labels were requested.
    """
    padded = next((column for column in columns if column.filler), None)
    for number in range(1, count + 1):
        arrays = {column.name: next(rows[column.name]) for column in columns}
        sample = Sample(arrays)
        if padded is not None and number == count:
            sample.batch, sample.filler = padded.rows, padded.filler
        if labels is not None:
            sample.labels = next(labels)
        yield sample


def read_rows(stream: IO[bytes], column: StoredColumn) -> Iterator[Array]:
    """Yield the array of each run in order; for a scalar, yield the same array forever."""
    _header(stream, column.name)
    if not column.shape:
        yield from slice_rows(np.frombuffer(stream.read(), column.dtype).reshape(()), column)
        return
    reader = RowReader(stream, column)
    for run in range(column.samples or 0):
        # Rows are counted here: if a row has no elements, the number of bytes does not give the number of rows.
        yield _filled(reader.take(min(column.rows, column.shape[0] - run * column.rows)), column)


class RowReader:
    """Reads the rows of an array file in order. Memory is bounded, also where the array is in Fortran order.

    Args:
        stream: The array file, after its header; it can seek.
        column: The array; it has an axis of rows.
    """

    def __init__(self, stream: IO[bytes], column: StoredColumn) -> None:
        self._stream, self._column, self._begin = stream, column, stream.tell()
        self._next = self._first = 0
        self._inner = column.shape[1:]
        self._block: Array = np.empty((0, *self._inner), column.dtype)

    def take(self, rows: int) -> Array:
        """Return the next rows; there are as many."""
        size, first = math.prod(self._inner) * self._column.dtype.itemsize, self._next
        self._next += rows
        if not self._column.fortran:
            return np.frombuffer(self._stream.read(rows * size), self._column.dtype).reshape(rows, *self._inner)
        if self._next > self._first + len(self._block):
            count = min(max(rows, _BLOCK // max(size, 1)), self._column.shape[0] - first)
            self._first, self._block = first, self._fortran(first, count)
        return np.ascontiguousarray(self._block[first - self._first : self._next - self._first])

    def _fortran(self, first: int, count: int) -> Array:
        """Return rows of an array in Fortran order: the first element of all rows is stored first."""
        size, lines = self._column.dtype.itemsize, math.prod(self._inner)
        line = self._column.shape[0] * size
        found: Array = np.empty((lines, count), self._column.dtype)
        group = max(1, _CHUNK // max(line, 1))
        for at in range(0, lines, group):
            some = min(group, lines - at)
            self._stream.seek(self._begin + at * line + first * size)
            part = self._stream.read(wanted := (some - 1) * line + count * size)
            if len(part) < wanted:
                raise EOFError("it ends early")
            found[at : at + some] = np.ndarray((some, count), self._column.dtype, part, strides=(line, size))
        return found.reshape(*self._inner[::-1], count).transpose()


def slice_rows(whole: Array, column: StoredColumn) -> Iterator[Array]:
    """Yield the array of each run in order, as :func:`read_rows` does, but from an array in memory."""
    if not column.shape:
        yield from itertools.repeat(whole)
    for run in range(column.samples or 0):
        yield _filled(np.ascontiguousarray(whole[run * column.rows : (run + 1) * column.rows]), column)


def _filled(part: Array, column: StoredColumn) -> Array:
    """Return the rows of one run: a complete (padded) batch, or the single row without the axis of the rows."""
    if not column.batched:
        return part.reshape(column.shape[1:])
    missing = column.rows - len(part) if column.fill else 0
    return np.concatenate([part, np.repeat(part[-1:], missing, axis=0)]) if missing else part


def _header(stream: IO[bytes], place: str) -> tuple[tuple[int, ...], bool, np.dtype[np.generic]]:
    try:
        version = np.lib.format.read_magic(stream)
        if version == (1, 0):
            return np.lib.format.read_array_header_1_0(stream)
        return np.lib.format.read_array_header_2_0(stream)
    except DAMAGED_ARRAY as error:
        raise UsageError(f"{place} is damaged: {error}") from None
