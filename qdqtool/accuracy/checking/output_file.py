"""Read and write outputs of all samples in one ``.npz``: key = output name, samples along the first axis.

``check --save-outputs`` writes such files, and so do programs that run an engine elsewhere; ``--outputs`` reads them.
"""

import tempfile
import zipfile
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import IO

import numpy as np

from qdqtool.errors import UsageError
from qdqtool.models.graph.io.output import open_output
from qdqtool.numerics.dtypes import FLOAT32, Array
from qdqtool.registry import suggestion
from qdqtool.samples.columns import RowReader, StoredColumn, read_column
from qdqtool.samples.readers.npz import readable
from qdqtool.samples.signature import InputSpec

_OTHER_DATA = "it must come from the same model and the same --data, all samples in the same order"
_CHUNK = 1 << 22


def storable(name: str, output: Array) -> Array:
    """Convert an output for an ``.npz`` file: at least one axis, and float32 in place of types that NumPy lacks.

    Raises:
        UsageError: It holds strings or objects.
    """
    if output.dtype.kind not in "biufcV":
        raise UsageError(f"output '{name}' holds {output.dtype}, which an .npz cannot hold without pickling")
    plain = output.astype(FLOAT32) if output.dtype.kind == "V" else output
    return plain.reshape(1) if plain.ndim == 0 else plain


class OutputReader(ExitStack):
    """Reads the arrays of a file run by run. Use it as a context manager.

    Args:
        path: The file.
        names: The outputs of the model; the file must have exactly these.

    Raises:
        UsageError: It is not a readable npz file, or has other names.
    """

    def __init__(self, path: Path, names: Sequence[str]) -> None:
        super().__init__()
        self.path = path
        self._columns: dict[str, StoredColumn] = {}
        self._readers: dict[str, RowReader] = {}
        self._taken = dict.fromkeys(names, 0)
        try:
            with readable(path):
                self._read_headers(names)
        except BaseException:
            self.close()
            raise

    def take(self, name: str, expected: Array) -> Array:
        """Read the next rows of an output, as many as the reference has.

        Args:
            name: The output.
            expected: The reference's output of this run, from :func:`storable`.

        Raises:
            UsageError: Type or shape of the rows differ, or there are not enough of them.
        """
        column, rows = self._columns[name], len(expected)
        if column.dtype != expected.dtype:
            raise UsageError(
                f"{self._place(name)} has type {column.dtype}; the reference gives {expected.dtype}",
                hint=f"convert it before saving: array.astype('{expected.dtype}')",
            )
        if column.shape[1:] != expected.shape[1:]:
            raise UsageError(
                f"{self._place(name)} has rows of shape {list(column.shape[1:])}; the reference gives "
                f"{list(expected.shape[1:])}",
                hint=_OTHER_DATA,
            )
        self._taken[name] += rows
        if self._taken[name] > column.shape[0]:
            raise UsageError(
                f"{self._place(name)} has {column.shape[0]} rows; the reference gives more on this data",
                hint=_OTHER_DATA,
            )
        with readable(self.path):
            return self._readers[name].take(rows)

    def finish(self) -> None:
        """Check that all rows were read.

        Raises:
            UsageError: An output has rows that belong to no sample.
        """
        for name, column in self._columns.items():
            if self._taken[name] != column.shape[0]:
                raise UsageError(
                    f"{self._place(name)} has {column.shape[0]} rows; the reference gives {self._taken[name]} on this "
                    "data",
                    hint=_OTHER_DATA,
                )

    def _read_headers(self, names: Sequence[str]) -> None:
        archive = self.enter_context(zipfile.ZipFile(self.path))
        found = [name.removesuffix(".npy") for name in archive.namelist()]
        self._check_names(found, names)
        for name in names:
            member = archive.getinfo(f"{name}.npy")
            stream = self.enter_context(archive.open(member))
            # The rank is not checked here: the first run shows what it must be.
            spec = InputSpec(name, np.dtype(FLOAT32), None)
            column = self._columns[name] = read_column(stream, member.file_size, spec, self._place(name))
            if not column.shape:
                raise UsageError(f"{self._place(name)} is a scalar; samples must lie along the first axis")
            self._readers[name] = RowReader(stream, column)

    def _check_names(self, found: Sequence[str], names: Sequence[str]) -> None:
        listed = ", ".join(names)
        for name in found:
            if name not in names:
                raise UsageError(
                    f"{self.path}: '{name}' is no output of the model; its outputs: {listed}{suggestion(name, names)}"
                )
        for name in names:
            if name not in found:
                raise UsageError(f"{self.path}: output '{name}' is missing; found: {', '.join(found) or 'nothing'}")

    def _place(self, name: str) -> str:
        return f"{self.path}: output '{name}'"


@dataclass(slots=True)
class _Spool:
    """The rows of one output, in a temporary file."""

    file: IO[bytes]
    dtype: np.dtype[np.generic]
    inner: tuple[int, ...]
    rows: int = 0


class OutputWriter(ExitStack):
    """Collects outputs run by run in temporary files, and writes them at the end. A context manager."""

    def __init__(self, path: Path) -> None:
        super().__init__()
        self.path = path
        self._spools: dict[str, _Spool] = {}

    def add(self, name: str, rows: Array) -> None:
        """Add the rows of one run, from :func:`storable`.

        Raises:
            UsageError: They have another shape than earlier rows.
        """
        if name not in self._spools:
            file = self.enter_context(tempfile.TemporaryFile())  # noqa: SIM115  closed by the stack
            self._spools[name] = _Spool(file, rows.dtype, rows.shape[1:])
        spool = self._spools[name]
        if rows.shape[1:] != spool.inner:
            raise UsageError(
                f"output '{name}' changes its shape from sample to sample: rows of {list(spool.inner)}, then of "
                f"{list(rows.shape[1:])}; they do not form one array",
                hint="save the outputs of samples of one shape at a time",
            )
        spool.file.write(np.ascontiguousarray(rows).tobytes())
        spool.rows += len(rows)

    def save(self) -> None:
        """Write the file. Equal outputs give equal bytes."""
        with open_output(self.path) as target, zipfile.ZipFile(target, "w") as archive:
            for name, spool in self._spools.items():
                # ZipInfo dates the entry 1980. A name alone would give it the current time, and equal outputs different
                # bytes.
                with archive.open(zipfile.ZipInfo(f"{name}.npy"), "w", force_zip64=True) as member:
                    header = np.lib.format.header_data_from_array_1_0(np.empty((0, *spool.inner), spool.dtype))
                    np.lib.format.write_array_header_1_0(member, {**header, "shape": (spool.rows, *spool.inner)})
                    spool.file.seek(0)
                    while chunk := spool.file.read(_CHUNK):
                        member.write(chunk)
