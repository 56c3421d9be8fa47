"""SmoothQuant: divide outlier channels of a normalized tensor by factors, and multiply the weights that read them.

Xiao, Lin, Seznec, Wu, Demouth, Han: SmoothQuant (2023): ``s_j = max|X_j|**alpha / max|W_j|**(1 - alpha)``. The scale
and bias of the preceding normalization are divided by the factors. Alpha is given, or searched for each tensor. With
the best of :data:`CANDIDATES`, quantized products differ least from float products on rows of calibration data.

A search finds factors and steps on one part of the samples, and measures on rows of all samples. Large factors follow
the peaks of single channels, and few samples show little of the values that a channel has in use. On 48 rows of 128
channels of a decoder with random tokens, smoothing gained 1.5 dB on these rows and lost 11 dB on others.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from qdqtool.models.graph.index.view import Value
from qdqtool.models.transforms.rescaling_points import Reader, RescalingPoint
from qdqtool.numerics.dtypes import Array
from qdqtool.numerics.product import Factors
from qdqtool.quantization.preparation.factors.equalization import channel_factors
from qdqtool.quantization.statistics.channel_statistics import ChannelStatistics, folded_peaks

Peaks = Mapping[Value, Factors]
"""Largest magnitude of each channel, by tensor."""

CANDIDATES = (0.3, 0.4, 0.5, 0.6, 0.7, 0.8)
"""Alphas that a search tries, besides leaving the tensor unchanged."""

WORTHWHILE = 0.9
"""Largest share of the error that may remain: half a dB less than before. Few rows cannot show a smaller gain."""

HIGH = 127
"""Largest code of the format that a search rounds to: int8 represents every format with about 256 codes."""


def weight_peaks(point: RescalingPoint) -> Factors:
    """Return the largest weight that multiplies each channel of the point."""
    peaks = [folded_peaks(each.weight.layout.input_peaks(each.weight.read()), each.repeat) for each in point.readers]
    return np.asarray(np.max(peaks, axis=0), np.float64)


def smoothing_factors(
    point: RescalingPoint, seen: Mapping[Value, ChannelStatistics], weights: Factors, alpha: float
) -> Factors:
    """Return the factors of one rescaling point.

    Args:
        point: The tensor, and the products that read it.
        seen: Statistics of every tensor that a reader of the point reads.
        weights: The :func:`weight_peaks` of the point.
        alpha: From 0 to 1: the share of the unevenness that moves into the weights.
    """
    return _factors(point, {reader.tensor: seen[reader.tensor].peak for reader in point.readers}, weights, alpha)


def fold_factors(
    point: RescalingPoint, seen: Mapping[Value, ChannelStatistics], weights: Factors, alpha: float
) -> list[Factors]:
    """Return the factors from each part of the samples alone; one list entry if there is one part."""
    return [_factors(point, part, weights, alpha) for part in _parts(point, seen)]


def searched_alpha(
    point: RescalingPoint, seen: Mapping[Value, ChannelStatistics], weights: Factors, products: Sequence["TriedProduct"]
) -> float | None:
    """Return the alpha with the least error at one point; None if none is clearly better than an unchanged point.

    Args:
        point: A tensor with its channels on the last axis, and the products that read it.
        seen: Statistics of every tensor that a reader of the point reads.
        weights: The :func:`weight_peaks` of the point.
        products: The products that read the tensor, with some rows of their activations.
    """
    parts = _parts(point, seen)

    def error(factors: Factors, part: Peaks) -> float:
        return sum(product.error(factors, part[product.tensor]) for product in products)

    identity = np.ones(point.channels)
    best, least = None, WORTHWHILE * sum(error(identity, part) for part in parts)
    for alpha in CANDIDATES:
        found = sum(error(_factors(point, part, weights, alpha), part) for part in parts)
        if found < least:
            best, least = alpha, found
    return best


def _factors(point: RescalingPoint, seen: Peaks, weights: Factors, alpha: float) -> Factors:
    peaks = [folded_peaks(seen[reader.tensor], reader.repeat) for reader in point.readers]
    return channel_factors(np.max(peaks, axis=0), weights, alpha)


def _parts(point: RescalingPoint, seen: Mapping[Value, ChannelStatistics]) -> list[Peaks]:
    """Return the peaks of every tensor that a reader reads, for each part of the samples (or once for all samples)."""
    tensors = {reader.tensor for reader in point.readers}
    count = min(len(seen[tensor].folds) for tensor in tensors)
    if not count:
        return [{tensor: seen[tensor].peak for tensor in tensors}]
    return [{tensor: seen[tensor].folds[number] for tensor in tensors} for number in range(count)]


@dataclass(frozen=True, slots=True, eq=False)
class TriedProduct:
    """A product on which factors are tried.

    Attributes:
        tensor: The activation.
        repeat: Number of channels of the activation that share a factor.
        rows: Rows of the activation, ``[n, inputs]``, float32: candidates differ by far more than float32 rounding.
        weight: The weight, ``[inputs, outputs]``, float32.
        exact: ``rows @ weight``.
    """

    tensor: Value
    repeat: int
    rows: Array
    weight: Array
    exact: Array

    @classmethod
    def of(cls, reader: Reader, weight: Array, rows: Array) -> "TriedProduct":
        """Return the trial product of a reader: input rows ``[n, inputs]`` times the weight ``[inputs, outputs]``."""
        weight, rows = weight.astype(np.float32), rows.astype(np.float32)
        return cls(reader.tensor, reader.repeat, rows, weight, rows @ weight)

    def error(self, factors: Factors, peaks: Factors) -> float:
        """Return the squared error with these factors, if both operands are rounded to the steps from the peaks."""
        by = np.repeat(factors, self.repeat)
        step = np.float32(np.max(peaks / by) / HIGH)
        by = by.astype(np.float32)
        scaled = self.weight * by[:, np.newaxis]
        steps = np.maximum(scaled.max(axis=0), -scaled.min(axis=0)) / np.float32(HIGH)
        rounded = _rounded(self.rows / by, step) @ _rounded(scaled, steps)
        return float(np.square(rounded - self.exact).sum(dtype=np.float64))


def _rounded(values: Array, step: Array | np.float32) -> Array:
    steps = np.where(np.asarray(step) > 0, step, np.float32(1.0))
    found = values / steps
    np.rint(found, out=found)
    np.clip(found, -HIGH, HIGH, out=found)
    return np.multiply(found, steps, out=found)
