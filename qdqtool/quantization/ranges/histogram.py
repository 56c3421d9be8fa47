"""Histograms of magnitudes that merge exactly: the same values give the same counts in any order and grouping.

Bins are ``2**exponent`` wide and begin at 0. If a value lies past the last bin, neighboring bins are added up in pairs,
and every bin becomes twice as wide. So the exponent depends only on the largest magnitude, and no count is ever split.

As text, zeros at the end are left out and equal neighbors are always joined, so every histogram has exactly one text.
"""

from dataclasses import dataclass
from typing import Self

import numpy as np
import numpy.typing as npt

from qdqtool.numerics.counting import BINS

Counts = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True, eq=False)
class Histogram:
    """The counts of the magnitudes of a tensor.

    Attributes:
        exponent: A bin is ``2**exponent`` wide: bin i counts ``i <= |x| / 2**exponent < i + 1``. None if all are zeros.
        counts: One int64 for each of the :data:`BINS` bins; values that are exactly zero are not counted here.
        zeros: Number of values that are exactly zero.
    """

    exponent: int | None
    counts: Counts
    zeros: int = 0

    @classmethod
    def empty(cls) -> Self:
        """Return a histogram without values."""
        return cls(None, np.zeros(BINS, np.int64))

    def merge(self, other: "Histogram") -> "Histogram":
        """Return the histogram of the values of both histograms."""
        zeros = self.zeros + other.zeros
        if self.exponent is None or other.exponent is None:
            filled = other if self.exponent is None else self
            return Histogram(filled.exponent, filled.counts, zeros)
        exponent = max(self.exponent, other.exponent)
        return Histogram(exponent, self.widened(exponent) + other.widened(exponent), zeros)

    def widened(self, exponent: int) -> Counts:
        """Return the counts in bins of ``2**exponent``, which is not less than the current bin width."""
        if self.exponent is None:
            return self.counts
        return widen(self.counts, exponent - self.exponent)

    def edges(self) -> npt.NDArray[np.float64]:
        """Return the exact ``BINS + 1`` bounds of the bins."""
        return np.ldexp(np.arange(BINS + 1, dtype=np.float64), self.exponent or 0)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Histogram):
            return NotImplemented
        same = self.exponent == other.exponent and self.zeros == other.zeros
        return same and bool(np.array_equal(self.counts, other.counts))

    __hash__ = None  # type: ignore[assignment]  # as for every array


def exponent_for(amax: float) -> int | None:
    """Return the exponent of a histogram whose largest magnitude is ``amax``, which is finite; None for 0."""
    if amax == 0:
        return None
    # frexp gives amax = fraction * 2**e with fraction from 0.5 up to 1: amax falls into the upper half of 2**14 bins.
    return int(np.frexp(amax)[1]) - (BINS.bit_length() - 1)


def widen(counts: Counts, doublings: int) -> Counts:
    """Return the counts after every bin becomes ``2**doublings`` times as wide; the number of bins stays the same."""
    if doublings <= 0:
        return counts
    group = 1 << min(doublings, BINS.bit_length() - 1)
    wide = np.zeros_like(counts)
    wide[: BINS // group] = counts.reshape(-1, group).sum(axis=1)
    return wide


_MOST = 1 << 62
_LONGEST = 32


def encode_counts(counts: Counts) -> str:
    """Return counts as text.

    Args:
        counts: int64, shape [BINS].
    """
    used = np.flatnonzero(counts)
    if not used.size:
        return ""
    kept = counts[: int(used[-1]) + 1]
    starts = np.flatnonzero(np.diff(kept, prepend=kept[0] - 1))
    lengths = np.diff(starts, append=kept.size)
    runs = zip(kept[starts].tolist(), lengths.tolist(), strict=True)
    return " ".join(str(count) if length == 1 else f"{count}*{length}" for count, length in runs)


def decode_counts(text: str) -> Counts:
    """Return counts from their text.

    Raises:
        ValueError: The text has another form, holds more than :data:`BINS` counts, or more than an int64 can count.
    """
    runs = [_run(run) for run in text.split(" ")] if text else []
    used = sum(length for _, length in runs)
    if used > BINS:
        raise ValueError(f"are {used}; a histogram has {BINS}")
    if sum(count * length for count, length in runs) > _MOST:
        raise ValueError("add up to more values than a tensor can hold")
    counts = np.zeros(BINS, np.int64)
    counts[:used] = np.repeat([count for count, _ in runs], [length for _, length in runs])
    return counts


def _run(text: str) -> tuple[int, int]:
    count, star, length = text.partition("*")
    digits = count.isdecimal() and (length.isdecimal() or not star)
    if not digits or len(text) > _LONGEST or not text.isascii():
        raise ValueError("are no list such as '3 0*40 17'")
    return int(count), int(length) if star else 1
