"""Cross-layer equalization: factors for the channels of a tensor between two layers, so that one scale fits them all.

Nagel, van Baalen, Blankevoort, Welling: Data-Free Quantization Through Weight Equalization and Bias Correction (2019).
The paper divides channel i by ``s_i = sqrt(r1_i / r2_i)``. There r1 is the range of the weights that make channel i,
and r2 the range of the weights that read it. Each side gets half of the unevenness. Two things differ here.

First, r1 is the largest magnitude of channel i on calibration data. Weights have one scale for each output channel
here. So uneven channels do not harm the weights that make them; they harm the tensor, which has one scale.

Second, other shares than half are also tried. If all of the unevenness moves to the weights that read the tensor, the
rounding noise of the tensor is as small as if each channel had its own step. But these weights become uneven. And a
channel with larger values in use than in calibration then enlarges the step of all others. So several shares are tried
for each tensor. Factors are found on one part of the samples, and their expected noise is computed on all.

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
        importance: The weight of the noise of each output channel
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
        """The largest weight that multiplies each input channel, weighted by the importance of its output."""
        return np.asarray((self._peaks * np.sqrt(self._importance)).max(axis=1, initial=0.0).reshape(-1))

    def expected(self, factors: Factors, *, rounded_inputs: bool = True) -> float:
        """Return the total noise of all outputs if ``factors`` divide the input channels and multiply the weights.

        Args:
            factors: One for each input channel.
            rounded_inputs: Whether x is rounded too, to steps of one size; otherwise only W is rounded.
        """
        spread = self._layout.input_factors(factors)[..., 0]
        step = float(np.max(self._seen.peak / factors, initial=0.0))
        from_inputs: float = step * step * float(np.sum(self._squares * spread**2)) if rounded_inputs else 0.0
        energy = self._layout.input_factors(self._seen.mean_square / factors**2)[..., 0].sum(axis=2)
        steps = (self._peaks * spread).max(axis=2, initial=0.0)
        from_weights: float = float(np.sum(steps**2 * self._importance[..., 0] * energy)) * self._kernel
        return from_inputs + from_weights


MIGRATION = 0.5
"""The exponent of the activation range in ``a**m / w**(1 - m)``: each side gets half of the unevenness."""

MIGRATIONS = (0.25, 0.5, 0.75, 1.0)
"""Exponents to try."""

RANDOM_MIGRATIONS = (0.25,)
"""Exponents to try with random inputs. Their ranges are not the ranges of real inputs, so the weights decide more.

SQNR in dB with ranges of random inputs, with all exponents, without equalization, and with this exponent: boxes of
``face_slim_320`` on drawn faces 15.4, 17.0, 18.1, its scores 23.1, 27.7, 27.8, ``digits_depthwise/uneven`` 26.0, -1.5,
25.5, ``digits_cnn`` 32.2, 32.2, 31.4.
"""

DIGITS = 4
"""Significant digits of a factor. Any positive number works, and a ranges file stores all factors, so they are short.
"""

Statistics = Mapping[Value, ChannelStatistics]


def channel_factors(peaks: Factors, weight_peaks: Factors, migration: float = MIGRATION) -> Factors:
    """Return the factors of a tensor's channels: ``peaks**m / weight_peaks**(1 - m)``.

    A channel that is always zero gets the factor that makes its weights as large as the weights of the median channel.
    A channel that no weight reads gets the factor that makes its values as large as those of the median channel. So
    networks that differ only by factors moved between their layers get the same tensors and weights.

    Args:
        peaks: Largest magnitude of each channel.
        weight_peaks: Largest magnitude of the weights that multiply each channel.
        migration: From 0, which equalizes the weights, to 1, which equalizes the tensor.

    Returns:
        Positive factors with geometric mean 1 and :data:`DIGITS` digits.
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
    """Return the nearest powers of two. Unless a value overflows, such factors change no bit of any output."""
    return np.asarray(np.exp2(np.rint(np.log2(factors))), np.float64)


@dataclass(frozen=True, slots=True, eq=False)
class BestFactors:
    """The factors of a rescaling point that lower the expected noise most.

    Attributes:
        factors: One for each channel.
        gain_db: How much the noise of the products that read the tensor is expected to fall, in dB.
        of_folds: The factors from each part of the samples alone; empty if there is only one part.
    """

    factors: Factors
    gain_db: float
    of_folds: tuple[Factors, ...] = ()


class PointNoise:
    """The expected noise of the products that read the tensor of a rescaling point.

    Args:
        point: The rescaling point.
        seen: Statistics of every tensor that a reader of the point reads.
        read: Returns the values of a stored weight; each weight is read once.
        importance: How much each channel of a tensor matters; empty if all channels matter equally.
        rounded_inputs: Whether activations are rounded too; see :meth:`ProductNoise.expected`.
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
        """Return by how many dB factors lower the noise."""
        before, after = self._expected(np.ones(self._channels)), self._expected(factors)
        return 10 * log10(before / after) if before and after else 0.0

    def best_factors(self, migrations: Sequence[float] = MIGRATIONS) -> BestFactors:
        """Return the best factors of all exponents, with their gain on samples that they were not found on."""
        weight_peaks = self._largest([product.weight_peaks for product in self._products])
        folds = [self._largest(peaks) for peaks in zip(*(seen.folds for seen, _ in self._seen), strict=False)]
        peaks = self._largest([seen.peak for seen, _ in self._seen])

        def gain(migration: float) -> float:
            each = [self.gain_db(channel_factors(found, weight_peaks, migration)) for found in folds or [peaks]]
            return float(np.mean(each))

        gains = {migration: gain(migration) for migration in migrations}
        best = max(gains, key=lambda migration: gains[migration])
        of_folds = tuple(channel_factors(found, weight_peaks, best) for found in folds)
        return BestFactors(channel_factors(peaks, weight_peaks, best), gains[best], of_folds)

    def _expected(self, factors: Factors) -> float:
        return sum(
            product.expected(np.repeat(factors, repeat), rounded_inputs=self._rounded_inputs)
            for product, (_, repeat) in zip(self._products, self._seen, strict=True)
        )

    def _largest(self, of_inputs: Sequence[Factors]) -> Factors:
        """Return, for each channel of the point, the largest of the numbers that its readers have for this channel."""
        folded = (folded_peaks(found, repeat) for found, (_, repeat) in zip(of_inputs, self._seen, strict=True))
        return np.asarray(np.max(list(folded), axis=0), np.float64)


def _noise(reader: Reader, seen: Statistics, importance: Importance) -> ProductNoise:
    weight = reader.weight
    counted = of_outputs(importance, weight.node, weight.layout.outputs)
    return ProductNoise(weight.read(), weight.layout, seen[reader.tensor], counted)
