"""The error of each sample at one output: the worst samples, and how the SQNR is distributed over all of them."""

from __future__ import annotations

from array import array
from bisect import insort
from dataclasses import dataclass, field

import numpy as np

from qdqtool.models.running.accumulated_error import AccumulatedError

MOST = 10
"""How many of the worst samples are kept for each output."""

OUTLIER_DB = 6.0
"""A sample this far below the median stands out: for its signal, its noise has four times the power."""

FEWEST = 4
"""Of fewer samples with an SQNR none stands out: their median says little."""


@dataclass(frozen=True, slots=True)
class SampleOrigin:
    """Where a sample comes from.

    Attributes:
        number: Its number in the data, from 0.
        files: The files it was made of, relative to the folder of the data; empty where data has no such files.
    """

    number: int
    files: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class WorstSample:
    """One sample at which an output is far from the baseline's.

    Attributes:
        number: Its number in the data, from 0; that of a batch for a model with a fixed batch.
        files: The files it was made of, relative to the folder of the data; empty where data has no such files.
        sqnr_db: SQNR of this sample alone; None where the baseline's output is 0 everywhere.
        max_abs: Largest absolute difference.
        zero_reference: Whether the baseline's output is 0 everywhere in this sample, and the output is not. No ratio
            says how bad that is, so it counts as worse than any.
        nonfinite: Elements that are NaN or infinite in one of the two outputs and not the same in the other. They count
            as worse than anything, and ``sqnr_db`` leaves them out.
    """

    number: int
    files: tuple[str, ...]
    sqnr_db: float | None
    max_abs: float
    zero_reference: bool = False
    nonfinite: int = 0

    @property
    def rankable_db(self) -> float | None:
        """Its SQNR; None where it counts as worse than any."""
        return None if self.nonfinite else self.sqnr_db

    @property
    def goodness(self) -> tuple[float, float]:
        """What samples are sorted by, the worst first."""
        if self.nonfinite:
            return 0, -self.nonfinite
        return (1, -self.max_abs) if self.sqnr_db is None else (2, self.sqnr_db)


@dataclass(frozen=True, slots=True, kw_only=True)
class SampleDistribution:
    """How the SQNR of single samples is distributed. Each sample counts in one of the first four numbers.

    Attributes:
        samples: Samples with an SQNR; the other figures are of these, interpolated linearly between samples.
        exact: Samples without an error.
        zero_reference: Samples in which the baseline's output is 0 everywhere, and the output is not.
        nonfinite: Samples with NaN or infinities that the baseline has not at the same places.
        min_db: The lowest SQNR; None, as the other figures, where no sample has one.
        lower_quartile_db: A quarter of the samples has less.
        median_db: Half of the samples have less.
        upper_quartile_db: A quarter of the samples has more.
        max_db: The highest SQNR.
    """

    samples: int
    exact: int
    zero_reference: int
    nonfinite: int
    min_db: float | None = None
    lower_quartile_db: float | None = None
    median_db: float | None = None
    upper_quartile_db: float | None = None
    max_db: float | None = None


@dataclass(slots=True)
class SampleErrors:
    """The samples of one float output so far; of each only its SQNR is kept, which takes 8 bytes.

    Attributes:
        worst: The worst samples that are not exact, the worst first.
        exact: Samples without an error.
        zero_reference: Samples with an error whose reference is 0 everywhere.
        nonfinite: Samples with NaN or infinities that the reference has not at the same places.
    """

    worst: list[WorstSample] = field(default_factory=list)
    exact: int = 0
    zero_reference: int = 0
    nonfinite: int = 0
    _sqnr_db: array[float] = field(default_factory=lambda: array("d"))

    def add(self, error: AccumulatedError, origin: SampleOrigin) -> None:
        """Count one sample by its error; one whose two outputs have different shapes is left out."""
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

    def distribution(self) -> SampleDistribution | None:
        """Return how the SQNR is distributed; None where no sample was compared."""
        counted = len(self._sqnr_db) + self.exact + self.zero_reference + self.nonfinite
        if not counted:
            return None
        figures: list[float | None] = [None] * 5
        if self._sqnr_db:
            figures = list(map(float, np.quantile(self._sqnr_db, (0, 0.25, 0.5, 0.75, 1))))
        low, lower, median, upper, high = figures
        return SampleDistribution(
            samples=len(self._sqnr_db),
            exact=self.exact,
            zero_reference=self.zero_reference,
            nonfinite=self.nonfinite,
            min_db=low,
            lower_quartile_db=lower,
            median_db=median,
            upper_quartile_db=upper,
            max_db=high,
        )


def is_outlier(sqnr_db: float | None, median_db: float | None, samples: int) -> bool:
    """Return whether the worst sample of an output is far below the others.

    Args:
        sqnr_db: Its SQNR; None for a sample that is worse than any that has one.
        median_db: Half of the samples have less; None where none has an SQNR.
        samples: How many samples have one.
    """
    if median_db is None or samples < FEWEST:
        return False
    return sqnr_db is None or sqnr_db < median_db - OUTLIER_DB
