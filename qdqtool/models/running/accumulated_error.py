"""The error of tensors against their references, from running sums over many samples; no sample is kept.

Sums are taken in float64 and in pieces: float16 data cannot overflow or lose small terms. NumPy's pairwise sum is used
because, unlike a BLAS dot product, its result does not depend on the number of threads.
"""

import math
from collections.abc import Iterable
from dataclasses import dataclass, fields
from operator import add
from typing import Self

import numpy as np

from qdqtool.errors import ArgumentError
from qdqtool.numerics.dtypes import FLOAT64, Array

# Elements converted to float64 at a time: 8 MiB for each operand.
_PIECE = 1 << 20


def ratio_db(signal: float, noise: float) -> float | None:
    """Return ``10 * log10(signal / noise)`` of two sums of squares, or None if one of them is zero."""
    if not signal or not noise:
        return None
    return 10 * (math.log10(signal) - math.log10(noise))


def max_steps(reference: Array, x: Array, scale: Array) -> float:
    """Return the largest difference in quantization steps: ``max(abs(a - x) / scale)``; 0 for empty tensors.

    Equal elements (also equal infinities) differ by 0 steps. Differences that are not finite are ignored.

    Args:
        reference: Real values, of any shape.
        x: Real values of the same shape.
        scale: Real value of one step: a scalar, or an array that broadcasts against the tensors (see
            :func:`qdqtool.numerics.granularity.expand`).

    Raises:
        ArgumentError: The shapes differ.
    """
    if reference.shape != x.shape:
        raise ArgumentError(f"shapes are {list(reference.shape)} and {list(x.shape)}; they must be equal")
    a, b = reference.astype(FLOAT64), x.astype(FLOAT64)
    with np.errstate(all="ignore"):
        difference = np.where(a == b, 0.0, np.abs((b - a) / np.asarray(scale).astype(FLOAT64)))
    return float(np.max(difference, initial=0.0, where=np.isfinite(difference)))


@dataclass(slots=True)
class AccumulatedError:
    """The error of one tensor against its reference over all samples so far.

    Elements that are NaN or infinite in either tensor are counted separately and left out of every sum. Samples in
    which the shapes differ are left out too: a NonMaxSuppression may keep a different number of boxes.

    Attributes:
        other_shapes: Number of samples in which the shapes differ.
        elements: Number of compared elements.
        different: Number of elements that are not equal (NaN equals NaN).
        nonfinite: Number of elements of the reference that are NaN or infinite.
        nonfinite_mismatches: Number of elements that are NaN or infinite in one tensor and different in the other.
        max_abs: Largest absolute difference.
        signal: ``sum(a**2)`` of the reference ``a``.
        noise: ``sum((a - x)**2)``.
        power: ``sum(x**2)`` of the tensor ``x``.
        product: ``sum(a * x)``.
    """

    other_shapes: int = 0
    elements: int = 0
    different: int = 0
    nonfinite: int = 0
    nonfinite_mismatches: int = 0
    max_abs: float = 0.0
    signal: float = 0.0
    noise: float = 0.0
    power: float = 0.0
    product: float = 0.0

    @classmethod
    def of(cls, reference: Array, x: Array) -> Self:
        """Return the error on one sample."""
        found = cls()
        found.add(reference, x)
        return found

    @classmethod
    def joined(cls, parts: Iterable["AccumulatedError"]) -> Self:
        """Return the error on the samples of all parts."""
        total = cls()
        for part in parts:
            total.include(part)
        return total

    def include(self, part: "AccumulatedError") -> None:
        """Add the errors that another object accumulated for the same tensor."""
        for field in fields(self):
            join = max if field.name == "max_abs" else add
            setattr(self, field.name, join(getattr(self, field.name), getattr(part, field.name)))

    def add(self, reference: Array, x: Array) -> None:
        """Add one sample."""
        if reference.shape != x.shape:
            self.other_shapes += 1
            return
        left, right = reference.reshape(-1), x.reshape(-1)
        self.elements += left.size
        for start in range(0, left.size, _PIECE):
            part = slice(start, start + _PIECE)
            self._add_piece(left[part].astype(FLOAT64), right[part].astype(FLOAT64))

    def _add_piece(self, a: Array, x: Array) -> None:
        finite = np.isfinite(a) & np.isfinite(x)
        if not finite.all():
            self.nonfinite += int(np.count_nonzero(~np.isfinite(a)))
            mismatch = ~finite & ~((a == x) | (np.isnan(a) & np.isnan(x)))
            self.nonfinite_mismatches += int(np.count_nonzero(mismatch))
            self.different += int(np.count_nonzero(mismatch))
            a, x = a[finite], x[finite]
        difference = np.abs(a - x)
        self.different += int(np.count_nonzero(difference))
        self.max_abs = max(self.max_abs, float(np.max(difference, initial=0.0)))
        self.signal += float(np.sum(a * a))
        self.noise += float(np.sum(difference * difference))
        self.power += float(np.sum(x * x))
        self.product += float(np.sum(a * x))

    @property
    def exact(self) -> bool:
        """Whether all shapes and all elements were equal."""
        return self.different == 0 and not self.other_shapes

    @property
    def sqnr_db(self) -> float | None:
        """``10 log10(signal / noise)``; None if undefined: for equal tensors, or for a reference of zeros."""
        return ratio_db(self.signal, self.noise)

    @property
    def cosine(self) -> float | None:
        """Cosine of the angle between the tensors; None if one tensor is zero everywhere."""
        if not self.signal or not self.power:
            return None
        return max(-1.0, min(1.0, self.product / math.sqrt(self.signal * self.power)))
