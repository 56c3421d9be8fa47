"""One sample (the inputs of one run, with batch size, labels and digest), and conversions of sample names and types."""

import hashlib
from collections.abc import Iterable, Iterator, Mapping
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field, replace
from typing import Protocol, runtime_checkable

import numpy as np

from qdqtool.errors import UsageError
from qdqtool.numerics.dtypes import FLOAT16, FLOAT32, Array

LABELS = "labels"
"""Key of the labels in data. If the model has an input with this name, it is an ordinary input."""


class NoLabelsError(UsageError):
    """The data has no labels."""


def labels_taken_error(where: object) -> NoLabelsError:
    """Return the error to raise if labels are requested and the model has an input with their name."""
    return NoLabelsError(f"{where}: '{LABELS}' is an input of the model, so it cannot hold the labels")


class Sample(dict[str, Array]):
    """The arrays of one run by input name.

    Attributes:
        batch: Number of rows of the batch; 1 if samples are not in batches.
        filler: Number of padded rows at the end of the batch.
        labels: The labels, one row for each row that is not padding; None if they were not requested.
        files: The files of the rows, without duplicates, relative to the data folder; empty for data of other kinds.
    """

    __slots__ = ("batch", "files", "filler", "labels")

    def __init__(
        self,
        arrays: Mapping[str, Array],
        *,
        batch: int = 1,
        filler: int = 0,
        labels: Array | None = None,
        files: tuple[str, ...] = (),
    ) -> None:
        super().__init__(arrays)
        self.batch = batch
        self.filler = filler
        self.labels = labels
        self.files = files

    @classmethod
    def like(cls, given: Mapping[str, Array], arrays: Mapping[str, Array]) -> "Sample":
        """Return a sample with other arrays, and with the batch, labels and files of ``given``."""
        if isinstance(given, Sample):
            return cls(arrays, batch=given.batch, filler=given.filler, labels=given.labels, files=given.files)
        return cls(arrays)

    def without_filler(self, output: Array) -> Array:
        """Return an output of the run without padded rows. If its first axis is not the batch, it is unchanged."""
        if not self.filler or output.shape[:1] != (self.batch,):
            return output
        return output[: self.batch - self.filler]

    def rows(self) -> Iterator[dict[str, Array]]:
        """Yield the inputs of each row of the batch that is not padding; inputs without a batch are in every row."""
        for row in range(self.batch - self.filler):
            yield {name: array[row] if array.shape[:1] == (self.batch,) else array for name, array in self.items()}


class Samples(Protocol):
    """Samples that can be iterated repeatedly and need not be in memory."""

    def __iter__(self) -> Iterator[Mapping[str, Array]]: ...


@runtime_checkable
class LabelledSamples(Samples, Protocol):
    """Samples that may have labels."""

    def with_labels(self) -> "LabelledSamples":
        """Return the same samples as :class:`~qdqtool.samples.sample.Sample` with labels."""


@dataclass(frozen=True, slots=True)
class Unlabelled:
    """Samples from a kind of data that cannot hold labels."""

    samples: Samples
    source: str

    def __iter__(self) -> Iterator[Mapping[str, Array]]:
        return iter(self.samples)

    def with_labels(self) -> "Unlabelled":
        """Raise an error, because there are no labels.

        Raises:
            NoLabelsError: Always.
        """
        raise NoLabelsError(
            f"{self.source} cannot hold labels for the metric",
            hint=f"save the samples as .npz, with the labels under the key '{LABELS}'",
        )


def labelled(samples: Samples, source: str) -> LabelledSamples:
    """Return the samples with a method ``with_labels``; messages name ``source``."""
    return samples if isinstance(samples, LabelledSamples) else Unlabelled(samples, source)


def sample_digest(sample: Mapping[str, Array]) -> bytes:
    """Return the sha256 of a sample. It covers name, type, shape and values of each input, sorted by name."""
    digest = hashlib.sha256()
    for name in sorted(sample):
        array = np.ascontiguousarray(sample[name])
        digest.update(f"{name}\0{array.dtype}\0{list(array.shape)}\0".encode())
        digest.update(array.reshape(-1).view(np.uint8).data)
    return digest.digest()


def data_digest(samples: Iterable[bytes]) -> str:
    """Return the sha256 of the digests of all samples in order, as hexadecimal digits."""
    return hashlib.sha256(b"".join(samples)).hexdigest()


@dataclass(frozen=True, slots=True)
class WithoutStored:
    """Samples without the former inputs that are constants now. Where a sample has them, the values must be equal."""

    samples: LabelledSamples
    stored: Mapping[str, Array]
    place: str

    def __iter__(self) -> Iterator[Sample]:
        for number, given in enumerate(self.samples):
            for name, value in self.stored.items():
                found = given.get(name)
                if found is not None and not np.array_equal(found, value):
                    raise UsageError(
                        f"{self.place}, sample {number}: input '{name}' is {found.tolist()}, and the model has it "
                        f"as a constant of {value.tolist()}",
                        hint="calibrate and check with samples of the value that --input-values gave",
                    )
            yield Sample.like(given, {name: array for name, array in given.items() if name not in self.stored})

    def with_labels(self) -> "WithoutStored":
        """Return the same samples with labels."""
        return replace(self, samples=self.samples.with_labels())


@dataclass(frozen=True, slots=True)
class Converted:
    """The samples with new input names; float32 arrays are rounded to float16 where the model needs float16.

    Attributes:
        samples: The samples.
        names: New names by old name; other arrays keep their names.
        halves: New names of the inputs of type float16.
    """

    samples: LabelledSamples
    names: Mapping[str, str] = field(default_factory=dict)
    halves: AbstractSet[str] = frozenset()

    def __iter__(self) -> Iterator[Sample]:
        for given in self.samples:
            named = {self.names.get(name, name): array for name, array in given.items()}
            yield Sample.like(given, {name: self._array(name, array) for name, array in named.items()})

    def with_labels(self) -> "Converted":
        """Return the same samples with labels."""
        return replace(self, samples=self.samples.with_labels())

    def _array(self, name: str, array: Array) -> Array:
        if name not in self.halves or array.dtype != FLOAT32:
            return array
        # Values beyond the range of float16 become infinite; the check of the samples reports them.
        with np.errstate(over="ignore"):
            return array.astype(FLOAT16)
