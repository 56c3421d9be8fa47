"""Rounding weights so that the errors of one input channel are made up for by the next ones: GPTQ.

Rounding to the nearest code minimizes the error of the weights. What counts is the error of the product, the mean of
``|x (W - W')|**2``, which depends on how the inputs go together: on ``H = mean(x' x)``. Input channels are rounded one
after the other, those with the largest inputs first, and what each one is off is taken out of those that are still to
come, in the way that is best for ``H``.

Source: Frantar et al., GPTQ (2023), with scales that are fixed beforehand for each block, in the order of the file.
"""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from qdqtool.numerics.affine import dequantize, quantize
from qdqtool.numerics.dtypes import FLOAT32, Array
from qdqtool.numerics.granularity import Blocked, PerAxis, expand
from qdqtool.numerics.number_format import NumberFormat
from qdqtool.numerics.scheme import QuantParams

Moments = npt.NDArray[np.float64]
"""Second moments of input channels, ``[K, K]``: the sum of ``x' x`` over rows."""

DAMPING = 0.05
"""What is added to the diagonal, as a share of its mean: with few samples channels seem to go together by chance."""
LAZY = 128
"""Input channels after which what is still to come is updated: a matrix product instead of many outer ones."""


@dataclass(frozen=True, slots=True)
class _Rounder:
    """Nearest codes of one row of weights: one input channel, all outputs."""

    fmt: NumberFormat

    def __call__(self, row: Array, scale: Array) -> tuple[Array, Array]:
        """Codes and what they stand for."""
        codes = quantize(row.astype(FLOAT32), scale, self.fmt, PerAxis(0))
        return codes, dequantize(codes, scale, PerAxis(0))


def round_weights(weights: Array, params: QuantParams, moments: Moments) -> Array:
    """Codes of a weight that make the error of its product small.

    Args:
        weights: ``[K, N]`` or ``[N, K]``, finite.
        params: Its scales, in blocks along K.
        moments: Second moments of the K input channels.

    Returns:
        Codes of the weight's shape in the format's type.
    """
    granularity = params.scheme.granularity
    assert isinstance(granularity, Blocked)
    scales = expand(params.scale.astype(FLOAT32), weights.shape, granularity)
    inputs_first = granularity.axis % 2 == 0
    if not inputs_first:
        weights, scales = weights.T, scales.T
    codes = _round(weights.astype(np.float64), np.ascontiguousarray(scales), params.scheme.format, moments)
    return codes if inputs_first else np.ascontiguousarray(codes.T)


def _round(weights: Moments, scales: Array, fmt: NumberFormat, moments: Moments) -> Array:
    order = np.argsort(-np.diag(moments), kind="stable")
    upper = _factor(moments[np.ix_(order, order)])
    left, codes, nearest = weights[order], np.empty(weights.shape, fmt.dtype), _Rounder(fmt)
    for first in range(0, len(order), LAZY):
        last = min(first + LAZY, len(order))
        errors = np.empty((last - first, weights.shape[1]))
        for row in range(first, last):
            channel = order[row]
            codes[channel], value = nearest(left[row], scales[channel])
            errors[row - first] = (left[row] - value) / upper[row, row]
            left[row + 1 : last] -= np.outer(upper[row, row + 1 : last], errors[row - first])
        left[last:] -= upper[first:last, last:].T @ errors
    return codes


def _factor(moments: Moments) -> Moments:
    """The upper Cholesky factor of the inverse of the damped moments."""
    damped = moments.copy()
    diagonal = np.diag(damped).copy()
    diagonal[diagonal <= 0] = 1.0  # an input that is always 0: its weights do not matter
    np.fill_diagonal(damped, diagonal + DAMPING * diagonal.mean())
    return np.ascontiguousarray(np.linalg.cholesky(np.linalg.inv(damped)).T)
