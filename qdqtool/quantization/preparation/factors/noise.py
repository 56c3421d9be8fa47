"""Estimate the noise that quantizing adds to the result of a product, from statistics of its input.

Rounding to steps of ``d`` adds noise of mean square ``d**2 / 12``, which is assumed to be independent of everything
else (Widrow and Kollar, Quantization Noise, 2008). A product ``y_o = sum_i W_oi x_i`` then gets

    ``d_x**2 / 12 * sum_i W_oi**2``  from x, which has one step, ``d_x = max_i |x_i| / high``, and
    ``d_o**2 / 12 * sum_i mean(x_i**2)``  from W, which has a step for each output, ``d_o = max_i |W_oi| / high``.

The common ``1 / (12 * high**2)`` is left out: only ratios matter.
"""

import numpy as np

from qdqtool.numerics.dtypes import Array
from qdqtool.numerics.product import Factors, ProductLayout
from qdqtool.quantization.statistics.channel_statistics import ChannelStatistics


class ProductNoise:
    """The expected noise of one product, for any factors at its inputs.

    Args:
        weight: The weight as stored.
        layout: Its layout.
        seen: Statistics of the input channels.
        importance: How much the noise of each output channel counts
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
        """The largest weight that each input channel is multiplied with, weighted by the importance of its output."""
        return np.asarray((self._peaks * np.sqrt(self._importance)).max(axis=1, initial=0.0).reshape(-1))

    def expected(self, factors: Factors, *, rounded_inputs: bool = True) -> float:
        """The noise of all outputs together when input channels are divided by ``factors`` and weights multiplied.

        Args:
            factors: One for each input channel.
            rounded_inputs: Whether x is rounded, to steps of one size; else only W is.
        """
        spread = self._layout.input_factors(factors)[..., 0]
        step = float(np.max(self._seen.peak / factors, initial=0.0))
        from_inputs: float = step * step * float(np.sum(self._squares * spread**2)) if rounded_inputs else 0.0
        energy = self._layout.input_factors(self._seen.mean_square / factors**2)[..., 0].sum(axis=2)
        steps = (self._peaks * spread).max(axis=2, initial=0.0)
        from_weights: float = float(np.sum(steps**2 * self._importance[..., 0] * energy)) * self._kernel
        return from_inputs + from_weights
