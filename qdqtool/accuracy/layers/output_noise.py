"""Noise of the outputs of a model, sample by sample, and how two settings of the same model compare."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Self

import numpy as np

from qdqtool.numerics.dtypes import FLOAT64, Array

_ONE_ROUNDING = float(np.finfo(np.float32).eps) ** 2
"""Noise of an output relative to its signal below which a difference counts for nothing: one rounding of the output."""

WORST_DB = 300.0
"""Growth of noise that stands for values that became NaN or infinite."""


@dataclass(frozen=True, slots=True, eq=False)
class OutputNoise:
    """Signal and noise of each float output on each sample.

    Attributes:
        signal: ``sum(a**2)`` of the float output ``a``; float64, shape ``[samples, outputs]``.
        noise: ``sum((a - x)**2)`` of the output ``x``, the same shape; infinite where a value became NaN or infinite.
    """

    signal: Array
    noise: Array

    @classmethod
    def joined(cls, parts: Iterable["OutputNoise"]) -> Self:
        """Return the noise on the samples of all parts."""
        known = list(parts)
        return cls(np.concatenate([each.signal for each in known]), np.concatenate([each.noise for each in known]))

    def first(self, count: int) -> "OutputNoise":
        """Return the noise on the first samples."""
        return OutputNoise(self.signal[:count], self.noise[:count])

    @property
    def samples(self) -> int:
        """The number of samples."""
        return len(self.signal)

    def sqnr_db(self) -> Array:
        """Return the SQNR of each output over all samples, in dB; infinite where it has no noise, shape [outputs]."""
        signal, noise = self.signal.sum(axis=0), self.noise.sum(axis=0)
        with np.errstate(divide="ignore", invalid="ignore"):
            found = 10 * np.log10(signal / noise)
        return np.where(noise == 0, np.inf, np.where(signal == 0, -np.inf, found))

    def of(self, *, samples: Sequence[int] | None = None, output: int | None = None) -> "OutputNoise":
        """Return the noise on some samples, and at one output; None for all of them."""
        rows = slice(None) if samples is None else list(samples)
        columns = slice(None) if output is None else [output]
        return OutputNoise(self.signal[rows][:, columns], self.noise[rows][:, columns])

    def without(self, sample: int) -> "OutputNoise":
        """Return the noise on all samples but one."""
        return OutputNoise(np.delete(self.signal, sample, axis=0), np.delete(self.noise, sample, axis=0))

    def gain_db(self, other: "OutputNoise") -> float:
        """Return by how many dB the outputs of ``other`` have less noise than these, on the same samples.

        The mean over outputs; of two figures the mean: the noise over all samples, and the mean over samples of the
        noise in dB. Outputs that are zero everywhere are left out.
        """
        heard = self.signal.sum(axis=0) > 0
        if not heard.any():
            return 0.0
        whole = _gain(*(each.sum(axis=0)[heard] for each in (self.signal, self.noise, other.noise)))
        # One rounding of the mean sample: of a silent sample, noise of any size would be infinitely more than none.
        audible = np.maximum(self.signal, self.signal.mean(axis=0))
        single = _gain(audible[:, heard], self.noise[:, heard], other.noise[:, heard])
        return float((whole.mean() + single.mean()) / 2)

    def gain_error_db(self, other: "OutputNoise") -> float:
        """Return the standard error of :meth:`gain_db` in dB, by the jackknife; infinite for fewer than two samples.

        Each sample is left out once. So the error is large where one sample makes most of the noise, or of its change.
        """
        if self.samples < 2:
            return float("inf")
        gains = [self.without(number).gain_db(other.without(number)) for number in range(self.samples)]
        return float(np.std(gains) * np.sqrt(self.samples - 1))


def _gain(signal: Array, before: Array, after: Array) -> Array:
    least = np.maximum(_ONE_ROUNDING * signal, np.finfo(FLOAT64).tiny)
    first, second = np.maximum(before, least), np.maximum(after, least)
    with np.errstate(invalid="ignore"):
        gain = 10 * (np.log10(first) - np.log10(second))
    # Both infinite: neither is better.
    return np.asarray(np.clip(np.nan_to_num(gain, nan=0.0, posinf=WORST_DB, neginf=-WORST_DB), -WORST_DB, WORST_DB))


def noise_of(expected: Sequence[Array], found: Sequence[Array]) -> tuple[Array, Array]:
    """Return signal and noise of the outputs of one sample, each of shape ``[outputs]``.

    An output of another shape, as the boxes that a NonMaxSuppression keeps, counts as without signal and noise. So do
    elements that are NaN or infinite in the float output.
    """
    pairs = [_noise(a, x) for a, x in zip(expected, found, strict=True)]
    return np.array([signal for signal, _ in pairs]), np.array([noise for _, noise in pairs])


def _noise(reference: Array, found: Array) -> tuple[float, float]:
    if reference.shape != found.shape:
        return 0.0, 0.0
    a, x = reference.reshape(-1).astype(FLOAT64), found.reshape(-1).astype(FLOAT64)
    if not (np.isfinite(a).all() and np.isfinite(x).all()):
        finite = np.isfinite(a)
        if not np.isfinite(x[finite]).all():
            return _power(a[finite]), float("inf")
        a, x = a[finite], x[finite]
    return _power(a), _power(a - x)


def _power(array: Array) -> float:
    # The sum of NumPy, and not BLAS: that one divides its work by the threads of the machine, so its last bits differ
    # between machines, and its threads wait for each other where the machine is busy.
    return float(np.square(array).sum())
