"""Folders of ``.npz`` or ``.npy`` files with one or more samples each, read in the order of file names."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from qdqtool.errors import UsageError
from qdqtool.samples.media.files import by_number, only_inside
from qdqtool.samples.readers import npy, npz
from qdqtool.samples.sample import NoLabelsError, Sample
from qdqtool.samples.signature import InputSpec

ACCEPTS = "folder of .npz or .npy files"


def accepts(path: Path) -> bool:
    """Return whether ``path`` is a folder that has such files."""
    return path.is_dir() and bool(_files(path))


@dataclass(frozen=True, slots=True)
class FolderSamples:
    """The samples of all files; only one file is open at a time."""

    files: tuple[Path, ...]
    specs: tuple[InputSpec, ...]
    labelled: bool = False

    def __iter__(self) -> Iterator[Sample]:
        for file in self.files:
            for sample in self._samples(file):
                sample.files = (file.name,)
                yield sample

    def with_labels(self) -> "FolderSamples":
        """Return the same samples with the labels that each file holds.

        Raises:
            NoLabelsError: The first file has no labels.
            UsageError: Another file has no labels, or labels do not fit the inputs.
        """
        for number, file in enumerate(self.files):
            try:
                self._labelled(file)
            except NoLabelsError as error:
                problem = UsageError if number else NoLabelsError
                raise problem(error.message, hint=error.hint) from None
        return replace(self, labelled=True)

    def _samples(self, file: Path) -> Iterable[Sample]:
        if npz.accepts(file):
            return self._labelled(file) if self.labelled else npz.read(file, self.specs)
        return npy.read(file, self.specs)

    def _labelled(self, file: Path) -> npz.NpzSamples:
        if not npz.accepts(file):
            raise NoLabelsError(f"{file} cannot hold labels for the metric", hint="save .npz files")
        return npz.read(file, self.specs).with_labels()


def read(path: Path, specs: Sequence[InputSpec]) -> FolderSamples:
    """Read the samples of a folder. Each file is checked when it is opened."""
    return FolderSamples(only_inside(path, _files(path)), tuple(specs))


def _files(path: Path) -> tuple[Path, ...]:
    """Return the .npz files of a folder, or its .npy files if there is no .npz file."""
    inside = sorted(path.iterdir(), key=by_number)
    kinds = ([file for file in inside if unit.accepts(file)] for unit in (npz, npy))
    return tuple(next(filter(None, kinds), ()))
