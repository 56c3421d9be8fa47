"""What the samples of a data set are worth: how many repeat others, and how many hold one value throughout."""

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np

from qdqtool.errors import UsageError
from qdqtool.numerics.dtypes import Array
from qdqtool.samples.sample import sample_digest


@dataclass(slots=True)
class Survey:
    """Counts samples, one after the other.

    Attributes:
        samples: How many there were.
        repeated: How many were equal to an earlier one.
        constant: How many were constant: each of their inputs with more than one element held one value throughout.
        first: Number and value of the first constant sample, from 0.
    """

    samples: int = 0
    repeated: int = 0
    constant: int = 0
    first: tuple[int, object] | None = None
    _seen: set[bytes] = field(default_factory=set)

    def add(self, sample: Mapping[str, Array]) -> None:
        """Count a sample."""
        digest = sample_digest(sample)
        self.repeated += digest in self._seen
        self._seen.add(digest)
        values = [_only_value(array) for array in sample.values() if array.size > 1]
        # An input of one element says nothing, and one constant input beside others is usual: a mask, a first state.
        if values and None not in values:
            self.constant += 1
            self.first = self.first or (self.samples, next((value for value in values if value), values[0]))
        self.samples += 1

    def refuse_constant(self, path: object) -> None:
        """Refuse data with constant samples, as a reader makes that finds nothing to read.

        Raises:
            UsageError: There are such samples.
        """
        if self.first is None:
            return
        number, value = self.first
        raise UsageError(
            f"{path}: {self.constant} of {self.samples} samples hold a single value: sample {number} is "
            f"{value} throughout",
            hint="look at what makes the samples; --allow-constant-data uses them as they are",
        )


def _only_value(array: Array) -> object | None:
    first = array.reshape(-1)[0]
    return first.item() if np.all(array == first) else None
