"""Arrays of NumPy's own file format, read a run at a time: one column is one input over all samples.

An array of the input's rank holds batches one after another: a model with a fixed batch of 4 gets 4 rows a run, one
with a dynamic batch gets one row a run. A last batch that is not full is filled up with its last row. An array with one
axis more holds one complete input in each row; that is for inputs whose first axis is no batch.
"""

import itertools
import math
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import IO

import numpy as np

from qdqtool.data.sample import Sample
from qdqtool.data.signature import InputSpec
from qdqtool.errors import UsageError
from qdqtool.numerics.dtypes import Array


@dataclass(frozen=True, slots=True)
class Column:
    """One stored array, as its header describes it.

    Attributes:
        name: The input it is for.
        dtype: Its type.
        shape: Its shape.
        fortran: Whether it is stored column by column, and can only be read whole.
        rows: Rows that one run takes.
        batched: Whether those rows are a batch; else the one row is the whole input.
        fill: Whether a last batch that is not full is filled up with its last row.
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
        """How many runs it is enough for; None for a scalar, which is the same in every run."""
        return -(-self.shape[0] // self.rows) if self.shape else None

    @property
    def filler(self) -> int:
        """Rows that the last batch lacks."""
        return -self.shape[0] % self.rows if self.shape else 0


def read_column(stream: IO[bytes], size: int, spec: InputSpec, place: str) -> Column:
    """The column that a stream holds, by its header.

    Args:
        stream: The array file, at its beginning.
        size: Its bytes.
        spec: The input it is for.
        place: How messages call it.

    Raises:
        UsageError: It is damaged, holds Python objects, or its rank does not fit the input.
    """
    shape, fortran, dtype = _header(stream, place)
    stored = size - stream.tell()
    if dtype.hasobject:
        raise UsageError(f"{place} holds pickled Python objects, which are never loaded", hint="save a numeric array")
    if stored != math.prod(shape) * dtype.itemsize:
        raise UsageError(f"{place} is damaged: {stored} bytes of data for {dtype} {list(shape)}")
    rank = len(spec.shape) if spec.shape is not None else len(shape)
    batched = len(shape) == rank
    if not batched and len(shape) != rank + 1:
        raise UsageError(f"{place} has shape {list(shape)}; the model takes {spec}, with samples along the first axis")
    return Column(spec.name, dtype, shape, fortran, _batch(spec) if batched else 1, batched)


def common_count(columns: Sequence[Column], path: Path) -> int:
    """How many runs the columns are enough for.

    Raises:
        UsageError: They differ.
    """
    counts = {column.name: column.samples for column in columns if column.samples is not None}
    if len(set(counts.values())) > 1:
        listed = ", ".join(f"{name} {count}" for name, count in counts.items())
        raise UsageError(f"{path} has a different number of samples for each input: {listed}")
    return next(iter(counts.values()), 1)


def as_one_run(columns: Sequence[Column], specs: Sequence[InputSpec]) -> tuple[Column, ...] | None:
    """The columns as the complete inputs of one run, whatever axis counts as their batch; None where they cannot be.

    That is so where every array has the declared rank and static dimensions, and each name of a dimension, which an
    open first one must have, stands for one extent: as with the nodes and edges of a graph.
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


def make_sample(arrays: Mapping[str, Array], columns: Sequence[Column], *, is_last: bool) -> Sample:
    """The sample that the columns give to one run, with what is known of its batch."""
    short = next((column for column in columns if column.filler), None) if is_last else None
    return Sample(arrays, batch=short.rows, filler=short.filler) if short is not None else Sample(arrays)


def read_rows(stream: IO[bytes], column: Column) -> Iterator[Array]:
    """What one run after the other takes from a column; endless for a scalar.

    Args:
        stream: The array file, at its beginning.
        column: What it holds.
    """
    _header(stream, column.name)
    if not column.shape or column.fortran:
        flat = np.frombuffer(stream.read(), column.dtype)
        whole = flat.reshape(column.shape[::-1]).transpose() if column.fortran else flat.reshape(column.shape)
        yield from _slices(whole, column)
        return
    inner = column.shape[1:]
    size = column.rows * math.prod(inner) * column.dtype.itemsize
    for _ in range(column.samples or 0):
        part = np.frombuffer(stream.read(size), column.dtype)
        yield _filled(part.reshape((-1, *inner)) if size else part.reshape(0, *inner), column)


def _slices(whole: Array, column: Column) -> Iterator[Array]:
    if not column.shape:
        yield from itertools.repeat(whole)
    for start in range(0, column.shape[0], column.rows):
        yield _filled(np.ascontiguousarray(whole[start : start + column.rows]), column)


def _filled(part: Array, column: Column) -> Array:
    """The rows of one run: a batch of full length, or the one row without its axis."""
    if not column.batched:
        return part.reshape(column.shape[1:])
    missing = column.rows - len(part) if column.fill else 0
    return np.concatenate([part, np.repeat(part[-1:], missing, axis=0)]) if missing else part


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


def by_number(path: Path) -> tuple[tuple[str, int], ...]:
    """A sort key that counts: ``set_2`` comes before ``set_10``."""
    words = re.findall(r"([^0-9]*)([0-9]*)", path.name)
    return (*((text, int(digits) if digits else -1) for text, digits in words), (path.name, 0))
