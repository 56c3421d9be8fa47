"""Measure the error of each sample and each channel of an output; one SQNR over all values hides lost ones."""

from __future__ import annotations

from array import array
from bisect import insort
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from qdqtool.accuracy.report import SampleDistribution, WorstSample
from qdqtool.models.running.accumulated_error import AccumulatedError
from qdqtool.numerics.dtypes import Array
from qdqtool.numerics.noise import decibels

MOST = 10
"""Number of the worst samples that are kept for each output."""

OUTLIER_DB = 6.0
"""A sample whose SQNR is this far below the median is an outlier: its ratio of noise to signal is four times larger."""

_QUANTILES = {"min_db": 0, "lower_quartile_db": 0.25, "median_db": 0.5, "upper_quartile_db": 0.75, "max_db": 1}

FEWEST = 4
"""With fewer samples that have an SQNR, none is an outlier, because their median is unreliable."""


@dataclass(frozen=True, slots=True)
class SampleOrigin:
    """Where a sample comes from.

    Attributes:
        number: Its number in the data, from 0.
        files: The files of the sample, relative to the folder of the data; empty if the data is not in such files.
    """

    number: int
    files: tuple[str, ...] = ()


@dataclass(slots=True)
class SampleErrors:
    """The samples of one float output so far; only the SQNR of each is kept, which takes 8 bytes.

    Attributes:
        worst: The worst samples that are not exact, the worst first.
        exact: Samples without an error.
        zero_reference: Samples with an error whose reference is 0 everywhere.
        nonfinite: Samples whose NaN or infinities differ from those of the reference.
    """

    worst: list[WorstSample] = field(default_factory=list)
    exact: int = 0
    zero_reference: int = 0
    nonfinite: int = 0
    _sqnr_db: array[float] = field(default_factory=lambda: array("d"))
    _max_abs: array[float] = field(default_factory=lambda: array("d"))

    def add(self, error: AccumulatedError, origin: SampleOrigin) -> None:
        """Count one sample by its error. It is left out if the output and its reference have different shapes."""
        if error.other_shapes:
            return
        nonfinite, sqnr = error.nonfinite_mismatches, error.sqnr_db
        if not nonfinite and not error.noise:
            self.exact += 1
            return
        if nonfinite:
            self.nonfinite += 1
        elif sqnr is None:
            self.zero_reference += 1
        else:
            self._sqnr_db.append(sqnr)
            self._max_abs.append(error.max_abs)
        found = WorstSample(
            number=origin.number,
            files=origin.files,
            sqnr_db=sqnr,
            max_abs=error.max_abs,
            zero_reference=not error.signal and error.noise > 0,
            nonfinite=nonfinite,
        )
        insort(self.worst, found, key=lambda each: each.goodness)
        del self.worst[MOST:]

    def lower_quartile(self, negligible: float) -> float | None:
        """Return the largest SQNR that at least three quarters of the samples reach; None if there are no samples.

        Args:
            negligible: A sample with at most this error counts as exact.
        """
        ratios = np.where(np.array(self._max_abs) <= negligible, np.inf, np.array(self._sqnr_db))
        ranked = np.sort(np.append(ratios, [np.inf] * self.exact))
        return float(ranked[-(-(ranked.size - 1) // 4)]) if ranked.size else None

    def distribution(self) -> SampleDistribution | None:
        """Return how the SQNR is distributed, or None if no sample was compared."""
        counted = len(self._sqnr_db) + self.exact + self.zero_reference + self.nonfinite
        if not counted:
            return None
        found = np.quantile(self._sqnr_db, list(_QUANTILES.values())).tolist() if self._sqnr_db else ()
        return SampleDistribution(
            samples=len(self._sqnr_db),
            exact=self.exact,
            zero_reference=self.zero_reference,
            nonfinite=self.nonfinite,
            **dict(zip(_QUANTILES, found, strict=False)),
        )


LEAST_VALUES = 16
"""Neighbors on an axis are judged together until they have so many values: single values of a good model are near 0."""

FEW_PARTS, LOST_SHARE = 20, 0.25
"""If an output has at most 20 parts, none may be lost. If it has more, a quarter may be lost: some states of an LSTM
and most anchors of a detector are always near 0."""

DEAD_SHARE = 0.02
"""Of any number of parts, one counts that is the same in all samples if its reference varies by at least this share of
the mean. Such anchors of a well-made detector were at 0.002 and below."""

VARIES_DB = 30.0
"""A reference varies if its power is less than 30 dB above the power of the part that changes with the sample.
Otherwise, an output that is quantized to 8 bits may be the same in all samples."""


@dataclass(slots=True)
class ChannelErrors:
    """The errors of an output by its index on one axis, over samples of equal shape.

    Attributes:
        axis: The axis.
        signal: ``sum(a**2)`` of the reference ``a``, by index.
        noise: ``sum((a - x)**2)``, by index.
        max_abs: Largest difference, by index.
        changes: Whether the output differs between samples, by index.
        values: Number of values with each index.
    """

    axis: int
    signal: Array
    noise: Array
    max_abs: Array
    changes: Array
    values: int = 0

    @classmethod
    def of(cls, shape: Sequence[int]) -> list[ChannelErrors]:
        """Make empty counts for the axes that may hold channels: the last axis, and the first axis after the batch."""
        axes = [axis for axis in dict.fromkeys((min(1, len(shape) - 1), len(shape) - 1)) if axis >= 0]
        return [cls(axis, *np.zeros((4, shape[axis]))) for axis in axes]

    def add(self, squares: Array, difference: Array, changes: Array) -> None:
        """Count one sample: squares of the reference, difference, and where it differs from the first sample."""
        over = self._over(squares)
        self.signal += squares.sum(over)
        self.noise += (difference * difference).sum(over)
        self.max_abs = np.maximum(self.max_abs, np.abs(difference).max(over, initial=0.0))
        self.changes = np.maximum(self.changes, changes.any(over))
        self.values += squares.size // max(1, squares.shape[self.axis])

    def lost(self, constant: Array, limit: float, negligible: float) -> str:
        """Return which parts of the output are lost; empty if too few or no parts are lost.

        Args:
            constant: The part of ``sum(a**2)`` that is the same in all samples, by element.
            limit: SQNR in dB that a part must exceed. A part that is the same in all samples counts as lost.
            negligible: A part with at most this error is not lost.
        """
        step = -(-LEAST_VALUES // max(1, self.values))
        starts = np.arange(0, self.signal.size - step + 1, step)
        if starts.size < 2:
            return ""
        signal, noise, varying = (
            np.add.reduceat(each, starts)
            for each in (self.signal, self.noise, self.signal - constant.sum(self._over(constant)))
        )
        largest, changes = (np.maximum.reduceat(each, starts) for each in (self.max_abs, self.changes))
        still = (changes == 0) & (decibels(signal, varying) < VARIES_DB)
        ratios = np.where(still, -np.inf, decibels(signal, noise))
        lost = np.flatnonzero((ratios <= limit) & (signal > 0) & (largest > negligible))
        if lost.size <= (0 if starts.size <= FEW_PARTS else starts.size * LOST_SHARE):
            lost = lost[(still & (varying >= DEAD_SHARE * varying.mean()))[lost]]
        if not lost.size:
            return ""
        worst = lost[np.argmin(ratios[lost])]
        found = f"{ratios[worst]:.3g} dB, and must have more than {limit:g} dB"
        found = f"has {found}" if np.isfinite(ratios[worst]) else "is the same in all samples"
        where = f"{lost.size} of {starts.size} parts along axis {self.axis} are lost"
        return f"{where}; the part from index {starts[worst]} on {found}"

    def _over(self, values: Array) -> tuple[int, ...]:
        return tuple(axis for axis in range(values.ndim) if axis != self.axis)


def is_outlier(sqnr_db: float | None, median_db: float | None, samples: int) -> bool:
    """Return whether the worst sample of an output is far below the others.

    Args:
        sqnr_db: SQNR of the worst sample; None if it has no SQNR, which is worse than any SQNR.
        median_db: Median SQNR of the samples; None if no sample has an SQNR.
        samples: How many samples have an SQNR.
    """
    if median_db is None or samples < FEWEST:
        return False
    return sqnr_db is None or sqnr_db < median_db - OUTLIER_DB
