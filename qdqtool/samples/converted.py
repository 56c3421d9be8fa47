"""Samples whose arrays have other names or types than the model takes."""

from collections.abc import Iterator, Mapping
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field, replace

import numpy as np

from qdqtool.errors import UsageError
from qdqtool.numerics.dtypes import FLOAT16, FLOAT32, Array
from qdqtool.samples.sample import LabelledSamples, Sample


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
