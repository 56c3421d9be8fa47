"""One sample: what goes into one run, what is known of it besides, and its digest."""

import hashlib
from collections.abc import Iterable, Iterator, Mapping
from typing import Protocol, runtime_checkable

import numpy as np

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


def sample_digest(sample: Mapping[str, Array]) -> bytes:
    """The sha256 of one sample: of each input, in the order of their names, its name, type, shape and values."""
    digest = hashlib.sha256()
    for name in sorted(sample):
        array = np.ascontiguousarray(sample[name])
        digest.update(f"{name}\0{array.dtype}\0{list(array.shape)}\0".encode())
        digest.update(array.reshape(-1).view(np.uint8).data)
    return digest.digest()


def data_digest(samples: Iterable[bytes]) -> str:
    """The sha256 of data, from the digests of its samples in order, as hexadecimal digits."""
    return hashlib.sha256(b"".join(samples)).hexdigest()
