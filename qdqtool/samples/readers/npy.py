"""``.npy`` files, for models with one input. The first axis counts samples, which are read one at a time."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from qdqtool.errors import UsageError
from qdqtool.samples.columns import StoredColumn, common_count, make_samples, read_column, read_rows
from qdqtool.samples.sample import Sample
from qdqtool.samples.signature import InputSpec, needed

ACCEPTS = ".npy file (models with one input)"


def accepts(path: Path) -> bool:
    """Return whether ``path`` is a file with the suffix ``.npy``."""
    return path.suffix.lower() == ".npy" and path.is_file()


@dataclass(frozen=True, slots=True)
class NpySamples:
    """The samples of one file."""

    path: Path
    column: StoredColumn
    count: int

    def __iter__(self) -> Iterator[Sample]:
        with self.path.open("rb") as stream:
            rows = {self.column.name: read_rows(stream, self.column)}
            yield from make_samples(rows, [self.column], self.count)


def read(path: Path, specs: Sequence[InputSpec]) -> NpySamples:
    """Read the samples of an npy file.

    Raises:
        UsageError: The model needs no input or several inputs, or the file is damaged or holds Python objects.
    """
    specs = needed(specs)
    if len(specs) != 1:
        names = ", ".join(spec.name for spec in specs) or "none"
        raise UsageError(
            f"{path} holds one array, and the model has {len(specs)} inputs: {names}",
            hint="save an .npz with one array for each input: numpy.savez(file, name=array, ...)",
        )
    try:
        with path.open("rb") as stream:
            column = read_column(stream, path.stat().st_size, specs[0], str(path))
    except OSError as error:
        raise UsageError(f"{path} cannot be read: {error.strerror or error}") from None
    return NpySamples(path, column, common_count([column], path))
