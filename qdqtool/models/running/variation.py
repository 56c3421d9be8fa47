"""Measure whether an output still depends on the samples.

The SQNR cannot say: its signal contains what all samples have in common. An output that is the same whatever comes in
reaches 0.5 dB behind a Softmax over 10 classes, and 50 dB where a large bias is added last.
"""

from dataclasses import dataclass

import numpy as np

from qdqtool.numerics.dtypes import FLOAT64, Array
from qdqtool.numerics.metrics import ratio_db


@dataclass(slots=True)
class Variation:
    """How much an output varies over samples of equal shape, beside its reference.

    Attributes:
        samples: How many were counted.
        is_known: Whether all had one shape, and finite values.
        is_constant: Whether the output was the same in all samples, bit for bit.
        is_zero: Whether it was 0 everywhere.
        first: The output in the first sample.
        total: Sum of the reference over the samples, by element.
        squares: ``sum(a**2)`` of the reference ``a``, over all samples and elements.
    """

    samples: int = 0
    is_known: bool = True
    is_constant: bool = True
    is_zero: bool = True
    first: Array | None = None
    total: Array | None = None
    squares: float = 0.0

    def add(self, reference: Array, found: Array) -> None:
        """Count one sample of two arrays of equal shape."""
        a = reference.astype(FLOAT64)
        if self.first is None or self.total is None:
            self.first, self.total = found.copy(), np.zeros_like(a)
        self.is_known &= self.total.shape == a.shape and bool(np.isfinite(a).all())
        self.is_constant &= np.array_equal(self.first, found)
        self.is_zero &= not found.any()
        if self.is_known:
            self.samples += 1
            self.total += a
            self.squares += float(np.sum(a * a))

    @property
    def reference(self) -> float | None:
        """``sum((a - mean(a))**2)`` with the mean of each element over the samples.

        It is the least squared error that an output can have which is the same in all samples. None where it is not
        known: below two samples, and where shapes differ or values are not finite.
        """
        if not self.is_known or self.samples < 2 or self.total is None:
            return None
        return max(0.0, self.squares - float(np.sum(self.total * self.total)) / self.samples)

    @property
    def reference_db(self) -> float | None:
        """The power of the reference against that of what varies in it, in dB; None where that is unknown or 0."""
        return None if self.reference is None else ratio_db(self.squares, self.reference)
