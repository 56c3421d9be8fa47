"""SmoothQuant: divide outlier channels of a normalized tensor by factors, and multiply the weights that read them.

Xiao, Lin, Seznec, Wu, Demouth, Han: SmoothQuant (2023): ``s_j = max|X_j|**alpha / max|W_j|**(1 - alpha)``. The scale
and bias of the normalization in front are divided by the factors. Alpha is given, or searched for each tensor: the best
of :data:`CANDIDATES` is the one whose quantized products differ least from the float ones on rows of calibration data.
"""

from collections.abc import Mapping

import numpy as np

from qdqtool.graph.index.view import Value
from qdqtool.numerics.dtypes import Array
from qdqtool.numerics.product import Factors, ProductLayout
from qdqtool.preparation.factors.equalization import ReadWeight, channel_factors
from qdqtool.running.channel_statistics import ChannelStatistics, folded_peaks
from qdqtool.transforms.joints import Joint

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
    peaks = [folded_peaks(seen[reader.tensor].peak, reader.repeat) for reader in joint.readers]
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
    identity = np.ones(joint.channels)
    best, least = None, WORTHWHILE * _error(joint, seen, read, rows, identity)
    for alpha in CANDIDATES:
        error = _error(joint, seen, read, rows, smoothing_factors(joint, seen, read, alpha))
        if error < least:
            best, least = alpha, error
    return best


def _error(
    joint: Joint,
    seen: Mapping[Value, ChannelStatistics],
    read: ReadWeight,
    rows: Mapping[Value, Array],
    factors: Factors,
) -> float:
    """The squared error of all products that read the tensor, with both sides rounded."""
    total = 0.0
    for reader in joint.readers:
        by = np.repeat(factors, reader.repeat)
        weight = _matrix(reader.weight.layout, read(reader.weight))
        x = rows[reader.tensor].astype(np.float64)
        step = float(np.max(seen[reader.tensor].peak / by)) / HIGH
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
