"""The error of each sample at one output: the worst samples, and how the SQNR is distributed over all of them."""

from __future__ import annotations

from array import array
from bisect import insort
from dataclasses import dataclass, field

import numpy as np

from qdqtool.accuracy.report import SampleDistribution, WorstSample
from qdqtool.models.running.accumulated_error import AccumulatedError

MOST = 10
"""How many of the worst samples are kept for each output."""

OUTLIER_DB = 6.0
"""A sample whose SQNR is this far below the median is an outlier: its noise has four times the relative power."""

_QUANTILES = {"min_db": 0, "lower_quartile_db": 0.25, "median_db": 0.5, "upper_quartile_db": 0.75, "max_db": 1}

FEWEST = 4
"""Fewer samples with an SQNR have no outliers: their median says little."""


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

    def add(self, error: AccumulatedError, origin: SampleOrigin) -> None:
        """Count one sample by its error; a sample whose two outputs have different shapes is left out."""
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
