"""Samples of a model some of whose inputs were stored as constants (``--input-values``)."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace

import numpy as np

from qdqtool.errors import UsageError
from qdqtool.numerics.dtypes import Array
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
