"""Cross-layer equalization: factors for the channels of a tensor between two layers, so that one scale serves them all.

Nagel, van Baalen, Blankevoort, Welling: Data-Free Quantization Through Weight Equalization and Bias Correction (2019).
The paper divides channel i by ``s_i = sqrt(r1_i / r2_i)``. There r1 is the range of the weights that make channel i,
and r2 the range of the weights that read it: half of the unevenness goes to either side. Two things differ here.

First, r1 is the largest magnitude that channel i takes on calibration data. Weights have one scale for each output
channel here, so uneven channels do no harm to the weights that make them, but to the tensor, which has one scale.

Second, shares other than half are tried, too. If all of the unevenness leaves the tensor, its rounding noise is as
small as if each channel had a step of its own. But the weights that read it become uneven. And a channel that has
larger values in use than in calibration then enlarges the step of all others. So several shares are tried for each
tensor: factors are found on one part of the samples, and their expected noise is computed on all of them.

Rounding to steps of ``d`` adds noise of mean square ``d**2 / 12``, which is assumed to be independent of everything
else (Widrow and Kollar, Quantization Noise, 2008). A product ``y_o = sum_i W_oi x_i`` then gets

    ``d_x**2 / 12 * sum_i W_oi**2``  from x, which has one step, ``d_x = max_i |x_i| / high``, and
    ``d_o**2 / 12 * sum_i mean(x_i**2)``  from W, which has a step for each output, ``d_o = max_i |W_oi| / high``.

The common ``1 / (12 * high**2)`` is left out: only ratios matter.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import log10

import numpy as np

from qdqtool.models.graph.index.view import Value
from qdqtool.models.transforms.rescaling_points import Reader, RescalingPoint
from qdqtool.numerics.dtypes import Array
from qdqtool.numerics.product import Factors, ProductLayout
from qdqtool.quantization.preparation.factors.importance import Importance, of_outputs
from qdqtool.quantization.statistics.channel_statistics import ChannelStatistics, folded_peaks


class ProductNoise:
    """The expected noise of one product, for any factors at its inputs.

    Args:
        weight: The weight as stored.
        layout: Its layout.
        seen: Statistics of the input channels.
        importance: How much the noise of each output channel counts
            (:func:`qdqtool.quantization.preparation.factors.importance.channel_importance`), shape ``(outputs,)``; None
            for ones.
    """

    def __init__(
        self, weight: Array, layout: ProductLayout, seen: ChannelStatistics, importance: Factors | None = None
    ) -> None:
        canonical = layout.canonical(weight)
        every = np.ones(layout.outputs) if importance is None else importance
        self._importance: Factors = layout.output_factors(every)[..., 0]
        self._peaks: Factors = np.abs(canonical).max(axis=3, initial=0.0).astype(np.float64)
        squares = np.einsum("goik,goik->goi", canonical, canonical, dtype=np.float64)
        self._squares: Factors = (squares * self._importance).sum(axis=1, keepdims=True)
        self._kernel = int(canonical.shape[3])
        self._seen = seen
        self._layout = layout

    @property
    def weight_peaks(self) -> Factors:
        """The largest weight that each input channel is multiplied with, weighted by the importance of its output."""
        return np.asarray((self._peaks * np.sqrt(self._importance)).max(axis=1, initial=0.0).reshape(-1))

    def expected(self, factors: Factors, *, rounded_inputs: bool = True) -> float:
        """The noise of all outputs together when input channels are divided by ``factors`` and weights multiplied.

        Args:
            factors: One for each input channel.
            rounded_inputs: Whether x is rounded, to steps of one size; else only W is.
        """
        spread = self._layout.input_factors(factors)[..., 0]
        step = float(np.max(self._seen.peak / factors, initial=0.0))
        from_inputs: float = step * step * float(np.sum(self._squares * spread**2)) if rounded_inputs else 0.0
        energy = self._layout.input_factors(self._seen.mean_square / factors**2)[..., 0].sum(axis=2)
        steps = (self._peaks * spread).max(axis=2, initial=0.0)
        from_weights: float = float(np.sum(steps**2 * self._importance[..., 0] * energy)) * self._kernel
        return from_inputs + from_weights


MIGRATION = 0.5
"""The exponent of the activation's range in ``a**m / w**(1 - m)``: half of the unevenness goes to either side."""

MIGRATIONS = (0.25, 0.5, 0.75, 1.0)
"""Exponents that are tried."""

DIGITS = 4
"""Significant digits of a factor. Any positive number will do, and a ranges file keeps them all: short ones suffice."""

Statistics = Mapping[Value, ChannelStatistics]


def channel_factors(peaks: Factors, weight_peaks: Factors, migration: float = MIGRATION) -> Factors:
    """The factors of a tensor's channels: ``peaks**m / weight_peaks**(1 - m)``.

    A channel that is always zero gets the factor that makes its weights as large as those of the median channel; one
    that no weight reads, the factor that makes its values so. So networks that differ only by factors moved between
    their layers get the same tensors and weights.

    Args:
        peaks: Largest magnitude of each channel.
        weight_peaks: Largest magnitude of the weights that each channel is multiplied with.
        migration: From 0, where weights become even, to 1, where the tensor does.

    Returns:
        Positive factors of geometric mean 1, of :data:`DIGITS` digits.
    """
    factors = np.ones_like(peaks)
    live = (peaks > 0) & (weight_peaks > 0)
    if not live.any():
        return factors
    factors[live] = peaks[live] ** migration / weight_peaks[live] ** (1 - migration)
    silent, unread = (peaks == 0) & (weight_peaks > 0), (peaks > 0) & (weight_peaks == 0)
    factors[silent] = np.median((weight_peaks * factors)[live]) / weight_peaks[silent]
    factors[unread] = peaks[unread] / np.median((peaks / factors)[live])
    factors[~(live | silent | unread)] = 1.0
    mean = np.exp(np.mean(np.log(factors[live])))
    return np.array([float(f"{factor / mean:.{DIGITS}g}") for factor in factors])


def powers_of_two(factors: Factors) -> Factors:
    """The nearest powers of two. Unless a value overflows, moving such factors changes no bit of any output."""
    return np.asarray(np.exp2(np.rint(np.log2(factors))), np.float64)


@dataclass(frozen=True, slots=True, eq=False)
class BestFactors:
    """The factors of a rescaling point that lower the expected noise most.

    Attributes:
        factors: One for each channel.
        gain_db: By how much the noise of what reads the tensor is expected to fall, in dB.
        of_folds: The factors that each part of the samples alone gives; empty where there is one part.
    """

    factors: Factors
    gain_db: float
    of_folds: tuple[Factors, ...] = ()


class PointNoise:
    """The noise that is expected behind a rescaling point: in the products that read its tensor.

    Args:
        point: The rescaling point.
        seen: Statistics of every tensor that a reader reads.
        read: Gives the values of a stored weight; each is read once.
        importance: How much the channels of tensors count; empty for all the same.
        rounded_inputs: As :meth:`ProductNoise.expected` takes it.
    """

    def __init__(
        self,
        point: RescalingPoint,
        seen: Statistics,
        importance: Importance | None = None,
        *,
        rounded_inputs: bool = True,
    ) -> None:
        self._channels = point.channels
        self._seen = [(seen[reader.tensor], reader.repeat) for reader in point.readers]
        self._products = [_noise(reader, seen, importance or {}) for reader in point.readers]
        self._rounded_inputs = rounded_inputs

    def gain_db(self, factors: Factors) -> float:
        """By how many dB factors lower the noise."""
        before, after = self._expected(np.ones(self._channels)), self._expected(factors)
        return 10 * log10(before / after) if before and after else 0.0

    def best_factors(self) -> BestFactors:
        """The best factors of all :data:`MIGRATIONS`, with their gain on samples that they were not found on."""
        weight_peaks = self._largest([product.weight_peaks for product in self._products])
        folds = [self._largest(peaks) for peaks in zip(*(seen.folds for seen, _ in self._seen), strict=False)]
        peaks = self._largest([seen.peak for seen, _ in self._seen])

        def gain(migration: float) -> float:
            each = [self.gain_db(channel_factors(found, weight_peaks, migration)) for found in folds or [peaks]]
            return float(np.mean(each))

        gains = {migration: gain(migration) for migration in MIGRATIONS}
        best = max(gains, key=lambda migration: gains[migration])
        of_folds = tuple(channel_factors(found, weight_peaks, best) for found in folds)
        return BestFactors(channel_factors(peaks, weight_peaks, best), gains[best], of_folds)

    def _expected(self, factors: Factors) -> float:
        return sum(
            product.expected(np.repeat(factors, repeat), rounded_inputs=self._rounded_inputs)
            for product, (_, repeat) in zip(self._products, self._seen, strict=True)
        )

    def _largest(self, of_inputs: Sequence[Factors]) -> Factors:
        """The largest number for each channel of the point, from numbers for each input channel of its readers."""
        folded = (folded_peaks(found, repeat) for found, (_, repeat) in zip(of_inputs, self._seen, strict=True))
        return np.asarray(np.max(list(folded), axis=0), np.float64)


def _noise(reader: Reader, seen: Statistics, importance: Importance) -> ProductNoise:
    weight = reader.weight
    counted = of_outputs(importance, weight.node, weight.layout.outputs)
    return ProductNoise(weight.read(), weight.layout, seen[reader.tensor], counted)
