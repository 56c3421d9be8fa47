"""Cross-layer equalisation: channels of a tensor between two layers get ranges that one scale serves well.

Nagel, van Baalen, Blankevoort, Welling: Data-Free Quantization Through Weight Equalization and Bias Correction (2019).
There, ``s_i = sqrt(r1_i / r2_i)`` with r1 the range of the weights that make channel i and r2 that of the weights that
read it: half of the unevenness goes to either side. Two things are different here.

Weights have a scale for each output channel, so what suffers from uneven channels is the tensor between the layers,
which has one scale: r1 is the largest magnitude that channel i takes on calibration data.

And half is not always right. Were all unevenness taken from the tensor, each channel would have a step of its own, and
the noise from rounding it would be the least that there is. But then a channel that calibration saw only small values
of sets the step of all others as soon as it takes a larger one; and the weights become uneven. So several shares are
tried for each tensor: factors found on one part of the samples, judged by the noise expected on all of them.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from math import log10

import numpy as np

from qdqtool.graph.index.view import Value
from qdqtool.graph.index.weights import StoredWeight
from qdqtool.numerics.dtypes import Array
from qdqtool.numerics.product import Factors
from qdqtool.preparation.factors.importance import Importance, of_outputs
from qdqtool.preparation.factors.noise import ProductNoise
from qdqtool.running.channel_statistics import ChannelStatistics, folded_peaks
from qdqtool.transforms.joints import Joint, Reader

MIGRATION = 0.5
"""The exponent of the activation's range in ``a**m / w**(1 - m)``: half of the unevenness goes to either side."""

MIGRATIONS = (0.25, 0.5, 0.75, 1.0)
"""Exponents that are tried."""

DIGITS = 4
"""Significant digits of a factor: any positive number will do, and short ones are kept in a ranges file."""

Statistics = Mapping[Value, ChannelStatistics]
ReadWeight = Callable[[StoredWeight], Array]


def balance(peaks: Factors, reach: Factors, migration: float = MIGRATION) -> Factors:
    """The factors that balance a tensor against the weights that read it: ``peaks**m / reach**(1 - m)``.

    Channels that are always zero, or that no weight reads, follow the others: their weights (or values) become as large
    as those of the median channel. So factors, and all that comes of them, are the same for every network that differs
    only by factors moved between its layers.

    Args:
        peaks: Largest magnitude of each channel.
        reach: Largest magnitude of the weights that each channel is multiplied with.
        migration: From 0, where weights become even, to 1, where the tensor does.

    Returns:
        Positive factors of geometric mean 1, of :data:`DIGITS` digits.
    """
    factors = np.ones_like(peaks)
    live = (peaks > 0) & (reach > 0)
    if not live.any():
        return factors
    factors[live] = peaks[live] ** migration / reach[live] ** (1 - migration)
    silent, unread = (peaks == 0) & (reach > 0), (peaks > 0) & (reach == 0)
    factors[silent] = np.median((reach * factors)[live]) / reach[silent]
    factors[unread] = peaks[unread] / np.median((peaks / factors)[live])
    factors[~(live | silent | unread)] = 1.0
    mean = np.exp(np.mean(np.log(factors[live])))
    return np.array([float(f"{factor / mean:.{DIGITS}g}") for factor in factors])


def powers_of_two(factors: Factors) -> Factors:
    """The nearest powers of two: short of overflow, moving them changes no bit of any result."""
    return np.asarray(np.exp2(np.rint(np.log2(factors))), np.float64)


@dataclass(frozen=True, slots=True, eq=False)
class Balance:
    """Factors of a joint, and what they are expected to give.

    Attributes:
        factors: One for each channel.
        gain_db: By how much the noise of what reads the tensor is expected to fall, in dB.
    """

    factors: Factors
    gain_db: float


class JointNoise:
    """The noise that is expected behind a joint: in the products that read its tensor.

    Args:
        joint: The joint.
        seen: Statistics of every tensor that a reader reads.
        read: Gives the values of a stored weight; each is read once.
        importance: How much the channels of tensors count; empty for all the same.
        rounded_inputs: As :meth:`~qdqtool.preparation.factors.noise.ProductNoise.expected` takes it.
    """

    def __init__(
        self,
        joint: Joint,
        seen: Statistics,
        read: ReadWeight,
        importance: Importance | None = None,
        *,
        rounded_inputs: bool = True,
    ) -> None:
        self._channels = joint.channels
        self._seen = [(seen[reader.tensor], reader.repeat) for reader in joint.readers]
        self._products = [_noise(reader, seen, read, importance or {}) for reader in joint.readers]
        self._rounded_inputs = rounded_inputs

    def gain_db(self, factors: Factors) -> float:
        """By how many dB factors lower it."""
        before, after = self._expected(np.ones(self._channels)), self._expected(factors)
        return 10 * log10(before / after) if before and after else 0.0

    def balanced(self) -> Balance:
        """The best factors of :data:`MIGRATIONS`, with their gain on samples that they were not found on."""
        reach = self._widest([product.reach for product in self._products])
        folds = [self._widest(peaks) for peaks in zip(*(seen.folds for seen, _ in self._seen), strict=False)]
        peaks = self._widest([seen.peak for seen, _ in self._seen])

        def gain(migration: float) -> float:
            return float(np.mean([self.gain_db(balance(found, reach, migration)) for found in folds or [peaks]]))

        gains = {migration: gain(migration) for migration in MIGRATIONS}
        best = max(gains, key=lambda migration: gains[migration])
        return Balance(balance(peaks, reach, best), gains[best])

    def _expected(self, factors: Factors) -> float:
        return sum(
            product.expected(np.repeat(factors, repeat), rounded_inputs=self._rounded_inputs)
            for product, (_, repeat) in zip(self._products, self._seen, strict=True)
        )

    def _widest(self, of_inputs: Sequence[Factors]) -> Factors:
        """The largest for each channel of the joint, of numbers for each input channel of its readers."""
        folded = (folded_peaks(found, repeat) for found, (_, repeat) in zip(of_inputs, self._seen, strict=True))
        return np.asarray(np.max(list(folded), axis=0), np.float64)


def _noise(reader: Reader, seen: Statistics, read: ReadWeight, importance: Importance) -> ProductNoise:
    weight = reader.weight
    counted = of_outputs(importance, weight.node, weight.layout.outputs)
    return ProductNoise(read(weight), weight.layout, seen[reader.tensor], counted)
