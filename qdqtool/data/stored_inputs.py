"""Samples of a model some of whose inputs were stored as constants (``--input-values``)."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from qdqtool.data.sample import Sample, Samples
from qdqtool.data.signature import InputSpec
from qdqtool.errors import UsageError
from qdqtool.numerics.dtypes import Array


@dataclass(frozen=True, slots=True)
class WithoutStored:
    """The samples without inputs that were stored as constants; those that samples hold must have the same value.

    Attributes:
        samples: The samples.
        stored: The inputs, each with its value.
        place: Where the samples come from, for messages.
    """

    samples: Samples
    stored: Sequence[InputSpec]
    place: str

    def __iter__(self) -> Iterator[Sample]:
        for number, given in enumerate(self.samples):
            for spec in self.stored:
                found = given.get(spec.name)
                if found is not None and (spec.value is None or not np.array_equal(found, spec.value)):
                    raise UsageError(
                        f"{self.place}, sample {number}: input '{spec.name}' is {found.tolist()}, and the model has it "
                        f"as a constant of {np.asarray(spec.value).tolist()}",
                        hint="calibrate and check with samples of the value that --input-values gave",
                    )
            yield self._taken(given)

    def _taken(self, given: Mapping[str, Array]) -> Sample:
        stored = {spec.name for spec in self.stored}
        arrays = {name: array for name, array in given.items() if name not in stored}
        if isinstance(given, Sample):
            return Sample(arrays, batch=given.batch, filler=given.filler, labels=given.labels)
        return Sample(arrays)
