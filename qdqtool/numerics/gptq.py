"""Round weights with GPTQ: the rounding errors of one input channel are compensated in the next channels.

Rounding to the nearest code minimizes the error of the weights. The error that matters is that of the product, the mean
of ``|x (W - W')|**2``. It depends on the second moments of the inputs, ``H = mean(x' x)``. Input channels are rounded
one after the other, those with the largest inputs first. The errors of earlier channels are compensated in the next
one, in the way that is optimal for ``H``.

Source: Frantar et al., GPTQ (2023), with scales that are fixed beforehand for each block, in the order of the file. The
paper subtracts every error from all later weights, with the Cholesky factor of the inverse of ``H``. A factor of ``H``
itself gives the same codes: with ``H = U U'``, ``U`` upper triangular, channel ``j`` is rounded at
``w_j + sum(U_ij * (w_i - w'_i) for i < j) / U_jj``. That needs no inverse and is a third of the work.
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
"""Added to the diagonal, as a share of its mean: with few samples, channels are correlated by chance."""
LAZY = 128
"""Input channels after which the remaining ones are updated: one matrix product instead of many small ones."""


@dataclass(frozen=True, slots=True)
class _Rounder:
    """Nearest codes of one row of weights: one input channel, all outputs."""

    fmt: NumberFormat

    def __call__(self, row: Array, scale: Array) -> tuple[Array, Array]:
        """Return codes and their dequantized values as float32, as :func:`qdqtool.numerics.affine.quantize` does."""
        if self.fmt.kind == "integer":
            codes = np.clip(np.rint(row.astype(FLOAT32) / scale), self.fmt.low, self.fmt.high)
            return codes.astype(np.int8).astype(self.fmt.dtype), codes * scale
        found = quantize(row.astype(FLOAT32), scale, self.fmt, PerAxis(0))
        return found, dequantize(found, scale, PerAxis(0))


def round_weights(weights: Array, params: QuantParams, moments: Moments) -> Array:
    """Choose codes of a weight that make the error of its product small.

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


def damped(moments: Moments) -> Array:
    """Return moments with :data:`DAMPING` added to the diagonal, as float64: a positive definite matrix.

    The moment of an input that is always 0 is 0 and its weights have no effect. A factorization needs a positive
    diagonal, so the damping is positive even where all inputs are 0.
    """
    found = moments.astype(FLOAT64)
    diagonal = np.diag(found)
    np.fill_diagonal(found, diagonal + (DAMPING * diagonal.mean() or 1.0))
    return found


def _factor(moments: Moments, order: npt.NDArray[np.intp]) -> Array:
    """Return the upper triangular ``U`` with ``U U'`` the damped moments of the channels in that order, float64."""
    # NumPy's Cholesky factor is lower triangular. The factor of the reversed matrix, reversed again, is upper
    # triangular.
    backward = order[::-1]
    return np.ascontiguousarray(np.linalg.cholesky(damped(moments[np.ix_(backward, backward)]))[::-1, ::-1])
