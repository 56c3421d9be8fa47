"""Rounding weights so that the errors of one input channel are made up for by the next ones: GPTQ.

Rounding to the nearest code minimizes the error of the weights. What counts is the error of the product, the mean of
``|x (W - W')|**2``, which depends on how the inputs go together: on ``H = mean(x' x)``. Input channels are rounded one
after the other, those with the largest inputs first, and what the ones before are off is made up for in the next, in
the way that is best for ``H``.

Source: Frantar et al., GPTQ (2023), with scales that are fixed beforehand for each block, in the order of the file. The
paper takes every error out of all weights to come, by the Cholesky factor of the inverse of ``H``. The same codes come
from a factor of ``H`` itself: with ``H = U U'``, ``U`` upper triangular, channel ``j`` is rounded at
``w_j + sum(U_ij * (w_i - w'_i) for i < j) / U_jj``. That needs no inverse, and is a third of the work.
"""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from qdqtool.numerics.affine import dequantize, quantize
from qdqtool.numerics.dtypes import FLOAT32, FLOAT64, Array
from qdqtool.numerics.granularity import Blocked, PerAxis, expand
from qdqtool.numerics.number_format import NumberFormat
from qdqtool.numerics.scheme import QuantParams

Moments = npt.NDArray[np.float32] | npt.NDArray[np.float64]
"""Second moments of input channels, ``[K, K]``: the sum of ``x' x`` over rows."""

DAMPING = 0.05
"""What is added to the diagonal, as a share of its mean: with few samples channels seem to go together by chance."""
LAZY = 128
"""Input channels after which what is still to come is updated: a matrix product instead of many small ones."""


@dataclass(frozen=True, slots=True)
class _Rounder:
    """Nearest codes of one row of weights: one input channel, all outputs."""

    fmt: NumberFormat

    def __call__(self, row: Array, scale: Array) -> tuple[Array, Array]:
        """Codes, and what they stand for as float32; float32 as :func:`qdqtool.numerics.affine.quantize` computes."""
        if self.fmt.kind == "integer":
            codes = np.clip(np.rint(row.astype(FLOAT32) / scale), self.fmt.low, self.fmt.high)
            return codes.astype(np.int8).astype(self.fmt.dtype), codes * scale
        found = quantize(row.astype(FLOAT32), scale, self.fmt, PerAxis(0))
        return found, dequantize(found, scale, PerAxis(0))


def round_weights(weights: Array, params: QuantParams, moments: Moments) -> Array:
    """Codes of a weight that make the error of its product small.

    Args:
        weights: ``[K, N]`` or ``[N, K]``, finite.
        params: Its scales, in blocks along K; of at most 8 bits, without zero point.
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
    codes = _round(weights.astype(FLOAT64), np.ascontiguousarray(scales), params.scheme.format, moments)
    return codes if inputs_first else np.ascontiguousarray(codes.T)


def _round(weights: Array, scales: Array, fmt: NumberFormat, moments: Moments) -> Array:
    order = np.argsort(-np.diag(moments).astype(FLOAT64), kind="stable")
    upper = _factor(moments, order)
    wanted, codes, nearest = weights[order], np.empty(weights.shape, fmt.dtype), _Rounder(fmt)
    errors, owed = np.empty_like(wanted), np.zeros_like(wanted)
    for first in range(0, len(order), LAZY):
        last = min(first + LAZY, len(order))
        for row in range(first, last):
            channel, pivot = order[row], upper[row, row]
            due = owed[row] + upper[first:row, row] @ errors[first:row]
            codes[channel], value = nearest(wanted[row] + due / pivot, scales[channel])
            errors[row] = wanted[row] - value
        owed[last:] += upper[first:last, last:].T @ errors[first:last]
    return codes


def _factor(moments: Moments, order: npt.NDArray[np.intp]) -> Array:
    """The upper triangular ``U`` with ``U U'`` the damped moments of the channels in that order, float64.

    A Cholesky factor is lower triangular, so channels are taken from the last to the first and turned round again.
    """
    backward = order[::-1]
    damped = moments[np.ix_(backward, backward)].astype(FLOAT64)
    diagonal = np.diag(damped).copy()
    diagonal[diagonal <= 0] = 1.0  # an input that is always 0: its weights do not matter
    np.fill_diagonal(damped, diagonal + DAMPING * diagonal.mean())
    return np.ascontiguousarray(np.linalg.cholesky(damped)[::-1, ::-1])
