"""Noise of the outputs of a model on each sample: SQNR, gain over another model, and standard errors of both."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Self

import numpy as np

from qdqtool.numerics.dtypes import FLOAT64, Array

_ONE_ROUNDING = float(np.finfo(np.float32).eps) ** 2
"""Smallest noise, relative to the signal, that is counted: one float32 rounding of the output."""

WORST_DB = 300.0
"""Growth of noise, in dB, that is assumed if values became NaN or infinite."""


@dataclass(frozen=True, slots=True, eq=False)
class Noise:
    """Signal and noise of each float output on each sample.

    Attributes:
        signal: ``sum(a**2)`` of the float output ``a``; float64, shape ``[samples, outputs]``.
        noise: ``sum((a - x)**2)`` with the other output ``x``, same shape; infinite if a value became NaN or infinite.
    """

    signal: Array
    noise: Array

    @classmethod
    def joined(cls, parts: Iterable["Noise"]) -> Self:
        """Return the noise on the samples of all parts."""
        known = list(parts)
        return cls(np.concatenate([each.signal for each in known]), np.concatenate([each.noise for each in known]))

    @property
    def samples(self) -> int:
        """The number of samples."""
        return len(self.signal)

    @property
    def active(self) -> Array:
        """Whether each output has a value other than zero on any sample, shape ``[outputs]``."""
        return np.asarray(self.signal.sum(axis=0) > 0)

    def first(self, count: int) -> "Noise":
        """Return the noise on the first samples."""
        return Noise(self.signal[:count], self.noise[:count])

    def of(self, *, samples: Sequence[int] | None = None, output: int | None = None) -> "Noise":
        """Return the noise on some samples and at one output; None selects all samples or all outputs."""
        rows = slice(None) if samples is None else list(samples)
        columns = slice(None) if output is None else [output]
        return Noise(self.signal[rows][:, columns], self.noise[rows][:, columns])

    def without(self, sample: int) -> "Noise":
        """Return the noise on all samples but one."""
        return Noise(np.delete(self.signal, sample, axis=0), np.delete(self.noise, sample, axis=0))

    def sqnr_db(self) -> Array:
        """Return the SQNR of each output over all samples, in dB, shape ``[outputs]``; infinite without noise."""
        return decibels(self.signal.sum(axis=0), self.noise.sum(axis=0))

    def sqnr_error_db(self) -> Array:
        """Return the standard error of :meth:`sqnr_db`; NaN if one sample has all signal or all noise of an output."""
        if self.samples < 2:
            return np.full(self.signal.shape[1], np.nan)
        others = np.array([self.without(number).sqnr_db() for number in range(self.samples)])
        unknown = ~np.isfinite(others).all(axis=0)
        return np.where(unknown, np.nan, standard_error(np.where(unknown, 0.0, others)))

    def output_gains_db(self, other: "Noise") -> Array:
        """Return by how many dB each output of ``other`` has less noise over all samples, shape ``[outputs]``."""
        return _gain(*(each.sum(axis=0) for each in (self.signal, self.noise, other.noise)))

    def sample_gains_db(self, other: "Noise") -> Array:
        """Return by how many dB each output of ``other`` has less noise on each sample, ``[samples, outputs]``."""
        # The signal of the mean sample is the least: without signal, any noise would be infinitely more than none.
        return _gain(np.maximum(self.signal, self.signal.mean(axis=0)), self.noise, other.noise)

    def gain_db(self, other: "Noise") -> float:
        """Return by how many dB the outputs of ``other`` have less noise than these, on the same samples.

        Two gains are averaged: the gain over all samples together, and the mean of the gains of each sample. Both are
        means over the outputs, without outputs that are zero everywhere.
        """
        if not self.active.any():
            return 0.0
        whole, single = self.output_gains_db(other)[self.active], self.sample_gains_db(other)[:, self.active]
        return float((whole.mean() + single.mean()) / 2)

    def gain_error_db(self, other: "Noise") -> float:
        """Return the standard error of :meth:`gain_db` in dB; infinite for fewer than two samples.

        It is large if one sample has most of the noise, or most of the change of noise.
        """
        if self.samples < 2:
            return float("inf")
        gains = [self.without(number).gain_db(other.without(number)) for number in range(self.samples)]
        return float(standard_error(np.array(gains)))


def standard_error(left_out: Array) -> Array:
    """Return the standard error of a statistic by the jackknife.

    Efron, Stein: The jackknife estimate of variance (1981): ``sqrt((n - 1) / n * sum((x_i - mean(x))**2))``.

    Args:
        left_out: The statistics ``x_i`` along the first axis, each without sample ``i``; at least two.
    """
    return np.asarray(np.std(left_out, axis=0) * np.sqrt(len(left_out) - 1))


def decibels(signal: Array | float, noise: Array | float) -> Array:
    """Return ``10 log10(signal / noise)``: infinity without noise, minus infinity for noise without signal."""
    with np.errstate(divide="ignore", invalid="ignore"):
        found = 10 * np.log10(np.divide(signal, noise))
    return np.where(np.equal(noise, 0), np.inf, np.where(np.equal(signal, 0), -np.inf, found))


def _gain(signal: Array, before: Array, after: Array) -> Array:
    least = np.where(signal > 0, np.maximum(_ONE_ROUNDING * signal, np.finfo(FLOAT64).tiny), 0.0)
    first, second = np.maximum(before, least), np.maximum(after, least)
    with np.errstate(divide="ignore", invalid="ignore"):
        gain = np.where((first > 0) & (second > 0), 10 * (np.log10(first) - np.log10(second)), 0.0)
    # Both infinite: neither is better.
    return np.asarray(np.clip(np.nan_to_num(gain, nan=0.0, posinf=WORST_DB, neginf=-WORST_DB), -WORST_DB, WORST_DB))


def noise_of(expected: Mapping[str, Array], found: Mapping[str, Array]) -> Noise:
    """Return the noise of one sample, as a :class:`Noise` with one row; both arguments hold outputs by name.

    An output whose shape differs, such as the boxes that a NonMaxSuppression keeps, adds nothing to the signal or the
    noise. Elements that are NaN or infinite in the float output add nothing either.
    """
    pairs = [_powers(array, found[name]) for name, array in expected.items()]
    return Noise(np.array([[signal for signal, _ in pairs]]), np.array([[noise for _, noise in pairs]]))


def _powers(reference: Array, found: Array) -> tuple[float, float]:
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
    # NumPy's sum instead of BLAS: BLAS divides its work by the threads of the machine. So its last bits differ between
    # machines, and its threads wait for each other on a busy machine.
    return float(np.square(array).sum())
