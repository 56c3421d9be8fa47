"""Folders of ``.npz`` files, each with one sample or more; they are taken in the order of their names."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from qdqtool.pipeline.data.readers import npz
from qdqtool.pipeline.data.readers._order import by_number
from qdqtool.pipeline.data.sample import Sample
from qdqtool.pipeline.data.signature import InputSpec

ACCEPTS = "folder of .npz files"


def accepts(path: Path) -> bool:
    """Whether ``path`` is a folder with npz files in it."""
    return path.is_dir() and bool(_files(path))


@dataclass(frozen=True, slots=True)
class FolderSamples:
    """The samples of all files; one file is open at a time."""

    files: tuple[Path, ...]
    specs: tuple[InputSpec, ...]
    labelled: bool = False

    def __iter__(self) -> Iterator[Sample]:
        for file in self.files:
            samples = npz.read(file, self.specs)
            yield from samples.with_labels() if self.labelled else samples

    def with_labels(self) -> "FolderSamples":
        """The same samples with the right answers that every file has beside them."""
        return replace(self, labelled=True)


def read(path: Path, specs: Sequence[InputSpec]) -> FolderSamples:
    """The samples of a folder. Each file is checked as it is opened."""
    return FolderSamples(_files(path), tuple(specs))


def _files(path: Path) -> tuple[Path, ...]:
    return tuple(sorted((file for file in path.iterdir() if npz.accepts(file)), key=by_number))
