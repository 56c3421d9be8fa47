"""How far an SQNR over some samples may be from that over all samples that there could be."""

import math
from collections.abc import Sequence

from qdqtool.models.running.accumulated_error import AccumulatedError


class SampleSums:
    """Signal and noise of one output, sample by sample.

    Args:
        error: The error of the output over all samples; it grows with every sample.
    """

    def __init__(self, error: AccumulatedError) -> None:
        self._error = error
        self._sums = [(0.0, 0.0)]

    def note(self) -> None:
        """Note that one more sample was counted."""
        self._sums.append((self._error.signal, self._error.noise))

    def standard_error_db(self) -> float | None:
        """Return the standard error of the SQNR, in dB; None of fewer than two samples, or without noise."""
        pairs = zip(self._sums[1:], self._sums, strict=False)
        parts = [(signal - before[0], noise - before[1]) for (signal, noise), before in pairs]
        return jackknife_db(parts)


def jackknife_db(parts: Sequence[tuple[float, float]]) -> float | None:
    """Return the standard error of ``10 log10(sum signal / sum noise)`` by the jackknife.

    Efron, Stein: The jackknife estimate of variance (1981): with the statistic on all samples but one,
    ``sqrt((n - 1) / n * sum((x_i - mean(x))**2))``.

    Args:
        parts: Signal and noise of each sample, neither negative.

    Returns:
        In dB; None of fewer than two samples, or where all signal or noise is in one of them.
    """
    count = len(parts)
    signal, noise = math.fsum(part[0] for part in parts), math.fsum(part[1] for part in parts)
    others = [(signal - part[0], noise - part[1]) for part in parts]
    if count < 2 or any(each[0] <= 0 or each[1] <= 0 for each in others):
        return None
    found = [10 * math.log10(each[0] / each[1]) for each in others]
    mean = math.fsum(found) / count
    return math.sqrt((count - 1) / count * math.fsum((each - mean) ** 2 for each in found))
