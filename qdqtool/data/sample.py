"""One sample: what goes into one run, and what is known of it besides."""

from collections.abc import Iterator, Mapping
from typing import Protocol, runtime_checkable

from qdqtool.numerics.dtypes import Array


class Sample(dict[str, Array]):
    """The arrays of one run by input name.

    Attributes:
        batch: Rows of its batch; 1 where samples come one by one.
        filler: Rows at the end of the batch that only fill it up.
        labels: The right answers, one row for each row that is no filler; None where they were not asked for.
    """

    __slots__ = ("batch", "filler", "labels")

    def __init__(
        self, arrays: Mapping[str, Array], *, batch: int = 1, filler: int = 0, labels: Array | None = None
    ) -> None:
        super().__init__(arrays)
        self.batch = batch
        self.filler = filler
        self.labels = labels

    def without_filler(self, output: Array) -> Array:
        """An output of the run, less the rows that come from filler; as it is where its first axis is no batch."""
        if not self.filler or output.shape[:1] != (self.batch,):
            return output
        return output[: self.batch - self.filler]


class Samples(Protocol):
    """Samples that can be gone through again and again without being kept in memory."""

    def __iter__(self) -> Iterator[Mapping[str, Array]]: ...


@runtime_checkable
class LabelledSamples(Samples, Protocol):
    """Samples that may have the right answers beside them."""

    def with_labels(self) -> Samples:
        """The same ones, as :class:`~qdqtool.data.sample.Sample` with labels."""
        ...
