"""Statistics of the channels of one tensor."""

from dataclasses import dataclass

import numpy as np

from qdqtool.numerics.product import Factors


@dataclass(frozen=True, slots=True, eq=False)
class ChannelStatistics:
    """What values each channel took.

    Attributes:
        peak: Largest magnitude of each, float64, shape ``(channels,)``.
        mean: Mean of each.
        mean_square: Mean of the squares of each.
        folds: The largest magnitudes on parts of the samples, disjoint ones: what was found on one can be tried on the
            others. Empty where there was one sample only.
    """

    peak: Factors
    mean: Factors
    mean_square: Factors
    folds: tuple[Factors, ...] = ()

    def divided(self, factors: Factors) -> "ChannelStatistics":
        """Those of the same tensor with each channel divided by a positive factor."""
        folds = tuple(peak / factors for peak in self.folds)
        return ChannelStatistics(self.peak / factors, self.mean / factors, self.mean_square / factors**2, folds)


def folded_peaks(peaks: Factors, repeat: int) -> Factors:
    """The largest of every ``repeat`` neighbours, which share a factor."""
    return np.asarray(peaks.reshape(-1, repeat).max(axis=1), np.float64)
