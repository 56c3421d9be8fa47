"""SmoothQuant: divide outlier channels of a normalized tensor by factors, and multiply the weights that read them.

Xiao, Lin, Seznec, Wu, Demouth, Han: SmoothQuant (2023): ``s_j = max|X_j|**alpha / max|W_j|**(1 - alpha)``. The scale
and bias of the normalization in front are divided by the factors. Alpha is given, or searched for each tensor: the best
of :data:`CANDIDATES` is the one whose quantized products differ least from the float ones on rows of calibration data.

A search finds factors and steps on one part of the samples and measures on rows of all of them. Large factors follow
the peaks of single channels, and few samples show little of what a channel takes in use: on 48 rows of 128 channels, of
a decoder whose tokens are drawn at random, smoothing gained 1.5 dB on these rows and lost 11 dB on others.
"""

from collections.abc import Mapping

import numpy as np

from qdqtool.graph.index.view import Value
from qdqtool.numerics.dtypes import Array
from qdqtool.numerics.product import Factors, ProductLayout
from qdqtool.preparation.factors.equalization import ReadWeight, channel_factors
from qdqtool.running.channel_statistics import ChannelStatistics, folded_peaks
from qdqtool.transforms.joints import Joint

Peaks = Mapping[Value, Factors]
"""Largest magnitude of each channel, by tensor."""

CANDIDATES = (0.3, 0.4, 0.5, 0.6, 0.7, 0.8)
"""Alphas that a search tries, besides leaving the tensor as it is."""

WORTHWHILE = 0.9
"""Largest share of the error that may be left: some half a dB less than before. So few rows show no smaller gain."""

HIGH = 127
"""Largest code of the format that a search rounds to: int8, in place of every format with some 256 codes."""


def smoothing_factors(joint: Joint, seen: Mapping[Value, ChannelStatistics], read: ReadWeight, alpha: float) -> Factors:
    """The factors of one joint.

    Args:
        joint: The tensor and what reads it.
        seen: Statistics of every tensor that a reader reads.
        read: Gives the values of a stored weight.
        alpha: From 0 to 1: how much of the unevenness goes into the weights.
    """
    return _factors(joint, {reader.tensor: seen[reader.tensor].peak for reader in joint.readers}, read, alpha)


def fold_factors(
    joint: Joint, seen: Mapping[Value, ChannelStatistics], read: ReadWeight, alpha: float
) -> list[Factors]:
    """The factors that each part of the samples alone gives; one list entry where there is one part."""
    return [_factors(joint, part, read, alpha) for part in _parts(joint, seen)]


def _factors(joint: Joint, seen: Peaks, read: ReadWeight, alpha: float) -> Factors:
    peaks = [folded_peaks(seen[reader.tensor], reader.repeat) for reader in joint.readers]
    weight_peaks = [folded_peaks(r.weight.layout.input_peaks(read(r.weight)), r.repeat) for r in joint.readers]
    return channel_factors(np.max(peaks, axis=0), np.max(weight_peaks, axis=0), alpha)


def searched_alpha(
    joint: Joint, seen: Mapping[Value, ChannelStatistics], read: ReadWeight, rows: Mapping[Value, Array]
) -> float | None:
    """The alpha with the least error at one joint; None where none is clearly better than leaving the joint alone.

    Args:
        joint: A tensor with its channels on the last axis, and what reads it.
        seen: Statistics of every tensor that a reader reads.
        read: Gives the values of a stored weight.
        rows: Some rows ``[n, channels]`` of every tensor that a reader reads.
    """
    identity, parts = np.ones(joint.channels), _parts(joint, seen)
    best, least = None, WORTHWHILE * sum(_error(joint, part, read, rows, identity) for part in parts)
    for alpha in CANDIDATES:
        error = sum(_error(joint, part, read, rows, _factors(joint, part, read, alpha)) for part in parts)
        if error < least:
            best, least = alpha, error
    return best


def _parts(joint: Joint, seen: Mapping[Value, ChannelStatistics]) -> list[Peaks]:
    """The peaks of every tensor that a reader reads, on each part of the samples; on all where there is no part."""
    tensors = {reader.tensor for reader in joint.readers}
    count = min(len(seen[tensor].folds) for tensor in tensors)
    if not count:
        return [{tensor: seen[tensor].peak for tensor in tensors}]
    return [{tensor: seen[tensor].folds[number] for tensor in tensors} for number in range(count)]


def _error(joint: Joint, seen: Peaks, read: ReadWeight, rows: Mapping[Value, Array], factors: Factors) -> float:
    """The squared error of all products that read the tensor, with both sides rounded to the steps of these peaks."""
    total = 0.0
    for reader in joint.readers:
        by = np.repeat(factors, reader.repeat)
        weight = _matrix(reader.weight.layout, read(reader.weight))
        x = rows[reader.tensor].astype(np.float64)
        step = float(np.max(seen[reader.tensor] / by)) / HIGH
        steps = np.abs(weight * by[:, np.newaxis]).max(axis=0) / HIGH
        rounded = _rounded(x / by, step) @ _rounded(weight * by[:, np.newaxis], steps)
        total += float(np.sum((rounded - x @ weight) ** 2))
    return total


def _matrix(layout: ProductLayout, weight: Array) -> Array:
    """The weight of a MatMul or Gemm as ``[inputs, outputs]``."""
    return np.asarray(layout.canonical(weight)[0, :, :, 0].T, np.float64)


def _rounded(values: Array, step: Array | float) -> Array:
    steps = np.where(np.asarray(step) > 0, step, 1.0)
    return np.asarray(np.clip(np.rint(values / steps), -HIGH, HIGH) * steps)
