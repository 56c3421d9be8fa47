"""Bias correction: what rounding the weights adds to the mean of each output is taken off the bias.

Nagel et al., Data-Free Quantization (2019), section 4.2: with ``e = W_q - W``, the mean of ``W_q x`` is off by
``e E[x]``. E[x] is measured on calibration data, one mean for each input channel.
"""

import numpy as np

from qdqtool.numerics.dtypes import Array
from qdqtool.numerics.product import Factors, ProductLayout


def mean_shift(weight: Array, rounded: Array, layout: ProductLayout, means: Factors) -> Factors:
    """By how much rounding the weight moves the mean of each output channel.

    A Conv is taken as if it read no padding: next to borders, where it reads zeros, the mean moves less.

    Args:
        weight: As stored.
        rounded: The same after quantize and dequantize.
        layout: Where its channels lie.
        means: Mean of each input channel.

    Returns:
        float64, one for each output channel: to be taken off the bias.
    """
    error = layout.canonical(rounded).astype(np.float64) - layout.canonical(weight)
    shift = np.einsum("goik,gi->go", error, means.reshape(layout.groups, -1))
    return np.asarray(shift.reshape(-1), np.float64)
