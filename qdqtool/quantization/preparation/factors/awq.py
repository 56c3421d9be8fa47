"""AWQ: multiply the input channels of low-bit weights by factors, which are larger where the inputs are large.

Lin et al., AWQ: Activation-aware Weight Quantization (2023): ``s_j = mean|x_j|**alpha``, divided by ``sqrt(max(s) *
min(s))``. The weights that make ``x`` are divided by the factors. A weight with a large factor is rounded in finer
steps, relative to its size; the other weights in its block get coarser steps.

Alpha is searched: with the best of :data:`ALPHAS`, the products with nearest codes differ least from the float
products. But the codes are later chosen with data (GPTQ), which makes part of the gain superfluous. So factors are used
only if products with GPTQ codes gain too, on rows that neither the factors nor the codes come from.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from math import inf, log10

import numpy as np

from qdqtool.numerics import search
from qdqtool.numerics.affine import dequantize, quantize
from qdqtool.numerics.derive import ScaleRule
from qdqtool.numerics.dtypes import FLOAT32, FLOAT64, Array
from qdqtool.numerics.gptq import round_weights
from qdqtool.numerics.product import Factors
from qdqtool.numerics.scheme import QuantScheme

ALPHAS = tuple(step / 20 for step in range(1, 21))
"""The exponents that are tried, besides no factors at all; the paper tries the same number."""

LEAST_GAIN_DB = 0.5
"""Smallest decrease of the error of the products. With so few rows, smaller gains mean nothing. On the sample models,
gains of 0.1 to 0.4 dB at single rescaling points moved the outputs by -0.1 to +0.1 dB.
"""


@dataclass(frozen=True, slots=True, eq=False)
class TriedBlockProduct:
    """One product with a weight in blocks, at a rescaling point.

    Attributes:
        weight: ``[K, N]``; only some columns of a large weight.
        scheme: The scheme of the weight, with blocks along the axis 0.
        rows: The activation that is multiplied with the weight, ``[n, K]``. Half of the rows choose factors, the other
            half tests them.
        repeat: Number of neighboring input channels that share a factor.
    """

    weight: Array
    scheme: QuantScheme
    rows: Array
    repeat: int = 1

    @property
    def choosing(self) -> Array:
        """The selection rows, which determine factors and codes, float64."""
        return self.rows[: len(self.rows) // 2].astype(FLOAT64)

    @property
    def judging(self) -> Array:
        """The rows that test the factors, float64."""
        return self.rows[len(self.rows) // 2 :].astype(FLOAT64)


@dataclass(frozen=True, slots=True, eq=False)
class AwqFactors:
    """The factors of one rescaling point.

    Attributes:
        factors: One for each channel.
        alpha: The exponent that gave the factors.
        gain_db: How much the error of the products fell on the test rows, in dB.
    """

    factors: Factors
    alpha: float
    gain_db: float


def awq_factors(products: Sequence[TriedBlockProduct], alpha: float) -> Factors:
    """Return the factors of one rescaling point, computed from the first half of the rows (``choosing``).

    Args:
        products: The products that read the tensor; each input channel, or group of ``repeat``, has one factor.
        alpha: From 0 to 1; 0 gives factors of 1.
    """
    sizes = [np.abs(each.choosing).mean(axis=0).reshape(-1, each.repeat).mean(axis=1) for each in products]
    mean = np.mean(sizes, axis=0)
    # A channel that is always 0 is treated like the median channel: weights that read it have no effect.
    mean = np.where(mean > 0, mean, np.median(mean[mean > 0]) if np.any(mean > 0) else 1.0)
    powers = mean**alpha
    return np.asarray(powers / np.sqrt(powers.max() * powers.min()), FLOAT64)


def searched_factors(products: Sequence[TriedBlockProduct]) -> AwqFactors | None:
    """Return the best factors of one point, or None if the gain on test rows is below :data:`LEAST_GAIN_DB`."""
    found = {alpha: awq_factors(products, alpha) for alpha in ALPHAS}
    errors = {alpha: sum(_nearest_error(each, by) for each in products) for alpha, by in found.items()}
    best = min(errors, key=lambda alpha: errors[alpha])
    ones = np.ones_like(found[best])
    if errors[best] >= sum(_nearest_error(each, ones) for each in products):
        return None
    before = sum(_judged_error(each, ones) for each in products)
    after = sum(_judged_error(each, found[best]) for each in products)
    gain_db = 10 * log10(before / after) if before and after else (inf if before else 0.0)
    return AwqFactors(found[best], best, gain_db) if gain_db >= LEAST_GAIN_DB else None


def _nearest_error(product: TriedBlockProduct, factors: Factors) -> float:
    """Return the squared error of a product with nearest codes, on the selection rows."""
    scaled = _scaled(product, factors)
    params, _ = search.least_error(scaled, product.scheme, ScaleRule())
    codes = quantize(scaled, params.scale, product.scheme.format, product.scheme.granularity)
    return _error(product, dequantize(codes, params.scale, product.scheme.granularity), factors, product.choosing)


def _judged_error(product: TriedBlockProduct, factors: Factors) -> float:
    """Return the squared error of a product on the test rows, with GPTQ codes from the rows in ``choosing``."""
    scaled, x = _scaled(product, factors), product.choosing / np.repeat(factors, product.repeat)
    params, _ = search.least_error(scaled, product.scheme, ScaleRule())
    codes = round_weights(scaled, params, x.T @ x)
    return _error(product, dequantize(codes, params.scale, product.scheme.granularity), factors, product.judging)


def _scaled(product: TriedBlockProduct, factors: Factors) -> Array:
    return np.asarray(product.weight * np.repeat(factors, product.repeat)[:, np.newaxis], FLOAT32)


def _error(product: TriedBlockProduct, restored: Array, factors: Factors, x: Array) -> float:
    difference = restored / np.repeat(factors, product.repeat)[:, np.newaxis] - product.weight
    return float(np.sum(np.square(x @ difference)))
