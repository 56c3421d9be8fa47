"""Cross-layer equalisation: channels of a tensor between two layers get ranges that one scale serves well.

Nagel, van Baalen, Blankevoort, Welling: Data-Free Quantization Through Weight Equalization and Bias Correction (2019).
There, ``s_i = sqrt(r1_i / r2_i)`` with r1 the range of the weights that make channel i and r2 that of the weights that
read it. Weights have a scale for each output channel here, so what suffers from uneven channels is the tensor between
the layers, which has one scale: r1 is the largest magnitude that channel i takes on calibration data. That has a
second gain: r1 does not change with the factors of earlier layers, so going from the last layer to the first gives the
fixed point that the paper iterates towards, at once and however uneven the weights were before.
"""

from collections.abc import Callable, Mapping, Sequence
from math import log10

import numpy as np

from qdqtool.algorithms.channels import ChannelStatistics, folded_peaks
from qdqtool.algorithms.noise import ProductNoise
from qdqtool.graph.joints import Joint, Reader
from qdqtool.graph.view import NodeView, Value
from qdqtool.graph.weights import StoredWeight
from qdqtool.numerics.dtypes import Array
from qdqtool.numerics.product import Factors

MIGRATION = 0.5
"""The exponent of the activation's range in ``a**m / w**(1 - m)``: half of the unevenness goes to either side."""

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


def equalizing_factors(
    joints: Sequence[Joint], seen: Statistics, read: ReadWeight, migration: float = MIGRATION
) -> dict[Joint, Factors]:
    """Factors for every joint, found from the last to the first: those of a layer depend on the layers behind it.

    Args:
        joints: In the order of the graph.
        seen: Statistics of every tensor that a reader reads.
        read: Gives the values of a stored weight; each is read once.
        migration: As :func:`balance` takes it.
    """
    by_writer: dict[NodeView, Factors] = {}
    found: dict[Joint, Factors] = {}
    for joint in reversed(joints):
        peaks = np.max([folded_peaks(seen[reader.tensor].peak, reader.repeat) for reader in joint.readers], axis=0)
        reach = np.max([_reach(reader, by_writer, read) for reader in joint.readers], axis=0)
        found[joint] = by_writer[joint.writer] = balance(peaks, reach, migration)
    return {joint: found[joint] for joint in joints}


def noise_reduction_db(
    joint: Joint, factors: Mapping[Joint, Factors], seen: Statistics, read: ReadWeight, *, rounded_inputs: bool = True
) -> float:
    """By how many dB the factors of a joint lower the expected noise of what reads it, all other factors in place.

    Args:
        joint: One of ``factors``.
        factors: Those of every joint.
        seen: Statistics of every tensor that a reader reads.
        read: Gives the values of a stored weight.
        rounded_inputs: As :meth:`~qdqtool.algorithms.noise.ProductNoise.expected` takes it.
    """
    by_writer = {other.writer: by for other, by in factors.items()}
    before = after = 0.0
    for reader in joint.readers:
        outputs = by_writer.get(reader.weight.node)
        noise = ProductNoise(read(reader.weight), reader.weight.layout, seen[reader.tensor], outputs)
        identity, by = np.ones(reader.weight.layout.inputs), np.repeat(factors[joint], reader.repeat)
        before += noise.expected(identity, rounded_inputs=rounded_inputs)
        after += noise.expected(by, rounded_inputs=rounded_inputs)
    return 10 * log10(before / after) if before and after else 0.0


def _reach(reader: Reader, by_writer: Mapping[NodeView, Factors], read: ReadWeight) -> Factors:
    outputs = by_writer.get(reader.weight.node)
    return folded_peaks(reader.weight.layout.input_peaks(read(reader.weight), outputs), reader.repeat)
