"""The noise that quantizing adds to the result of a product, expected from statistics, before anything is quantized.

Rounding to steps of ``d`` adds noise of mean square ``d**2 / 12`` that is taken as independent of everything else
(Widrow and Kollar, Quantization Noise, 2008). A product ``y_o = sum_i W_oi x_i`` then takes up

    ``d_x**2 / 12 * sum_i W_oi**2``  from x, which has one step, ``d_x = max_i |x_i| / high``, and
    ``d_o**2 / 12 * sum_i mean(x_i**2)``  from W, which has a step for each output, ``d_o = max_i |W_oi| / high``.

The common ``1 / (12 * high**2)`` is left out: only ratios matter.
"""

import numpy as np

from qdqtool.algorithms.channels import ChannelStatistics
from qdqtool.numerics.dtypes import Array
from qdqtool.numerics.product import Factors, ProductLayout


class ProductNoise:
    """The expected noise of one product, for any factors at its inputs.

    Args:
        weight: The weight as stored.
        layout: Its layout.
        seen: Statistics of the input channels.
        outputs: What the output channels are divided by; the noise is that of the divided outputs. None for ones.
    """

    def __init__(
        self, weight: Array, layout: ProductLayout, seen: ChannelStatistics, outputs: Factors | None = None
    ) -> None:
        canonical = layout.canonical(weight)
        divisors = 1.0 if outputs is None else layout.output_factors(outputs)[..., 0]
        self._peaks: Factors = np.abs(canonical).max(axis=3, initial=0.0).astype(np.float64) / divisors
        self._squares: Factors = np.square(canonical, dtype=np.float64).sum(axis=3) / np.square(divisors)
        self._kernel = int(canonical.shape[3])
        self._seen = seen
        self._layout = layout

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
        from_weights: float = float(np.sum(steps**2 * energy)) * self._kernel
        return from_inputs + from_weights
