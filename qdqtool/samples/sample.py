"""One sample: the inputs of one run with its batch, labels and digest; and samples with other names or types."""

import hashlib
from collections.abc import Iterable, Iterator, Mapping
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field, replace
from typing import Protocol, runtime_checkable

import numpy as np

from qdqtool.errors import UsageError
from qdqtool.numerics.dtypes import FLOAT16, FLOAT32, Array

LABELS = "labels"
"""Key of the labels that data may hold beside the inputs. A run takes it only if the model has such an input."""


class NoLabelsError(UsageError):
    """The data has no labels."""


def labels_taken_error(where: object) -> NoLabelsError:
    """Return the error for data of a model that has an input of the name of the labels."""
    return NoLabelsError(f"{where}: '{LABELS}' is an input of the model, so it cannot hold the right answers")


class Sample(dict[str, Array]):
    """The arrays of one run by input name.

    Attributes:
        batch: Rows of its batch; 1 where samples come one by one.
        filler: Padded rows at the end of the batch.
        labels: The labels, one row for each row that is not padding; None where they were not requested.
        files: The files of its rows, each once, relative to the folder of the data; empty for data without such files.
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
        """Return other arrays of the same run, with its batch, labels and files."""
        if isinstance(given, Sample):
            return cls(arrays, batch=given.batch, filler=given.filler, labels=given.labels, files=given.files)
        return cls(arrays)

    def without_filler(self, output: Array) -> Array:
        """Return an output of the run without its padded rows; unchanged where its first axis is not the batch."""
        if not self.filler or output.shape[:1] != (self.batch,):
            return output
        return output[: self.batch - self.filler]


class Samples(Protocol):
    """Samples that can be iterated repeatedly without being kept in memory."""

    def __iter__(self) -> Iterator[Mapping[str, Array]]: ...


@runtime_checkable
class LabelledSamples(Samples, Protocol):
    """Samples that may have labels."""

    def with_labels(self) -> "LabelledSamples":
        """Return the same samples as :class:`~qdqtool.samples.sample.Sample` with labels."""


@dataclass(frozen=True, slots=True)
class Unlabelled:
    """Samples of a kind of data that holds nothing but inputs.

    Attributes:
        samples: The samples.
        source: Where they are from, for messages.
    """

    samples: Samples
    source: str

    def __iter__(self) -> Iterator[Mapping[str, Array]]:
        return iter(self.samples)

    def with_labels(self) -> "Unlabelled":
        """Refuse to give labels.

        Raises:
            NoLabelsError: Always.
        """
        raise NoLabelsError(
            f"{self.source} has no place for the right answers to measure by",
            hint=f"save the samples as .npz, with the answers under the key '{LABELS}'",
        )


def labelled(samples: Samples, source: str) -> LabelledSamples:
    """Return samples as such that may have labels; from the source that messages name."""
    return samples if isinstance(samples, LabelledSamples) else Unlabelled(samples, source)


def sample_digest(sample: Mapping[str, Array]) -> bytes:
    """Return the sha256 of one sample: of name, type, shape and values of each input, in the order of names."""
    digest = hashlib.sha256()
    for name in sorted(sample):
        array = np.ascontiguousarray(sample[name])
        digest.update(f"{name}\0{array.dtype}\0{list(array.shape)}\0".encode())
        digest.update(array.reshape(-1).view(np.uint8).data)
    return digest.digest()


def data_digest(samples: Iterable[bytes]) -> str:
    """Return the sha256 of all samples as hexadecimal digits: of their digests in order."""
    return hashlib.sha256(b"".join(samples)).hexdigest()


@dataclass(frozen=True, slots=True)
class WithoutStored:
    """The samples without inputs that were stored as constants; those that samples hold must have the same value.

    Attributes:
        samples: The samples.
        stored: The values, by the names of the inputs.
        place: Where the samples come from, for messages.
    """

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
    """The samples with new names, and float32 arrays rounded to float16 where the model takes that.

    Attributes:
        samples: The samples.
        names: The new name of an array by its old one; others keep theirs.
        halves: Inputs of type float16, by their new names.
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
        # What is beyond the range becomes infinite, which the check of the samples reports.
        with np.errstate(over="ignore"):
            return array.astype(FLOAT16)
