"""Compute the values that a tensor has behind its Q/DQ pair."""

import numpy as np

from qdqtool.models.plan import Placement
from qdqtool.numerics.affine import dequantize, fake_quantize
from qdqtool.numerics.dtypes import Array
from qdqtool.numerics.packing import unpack


def rounded(x: Array, placement: Placement) -> Array:
    """Quantize and dequantize ``x``, with the codes of the plan if it has any, else with the nearest codes.

    Args:
        x: Values of the tensor; of a constant, as stored.
        placement: The pair.

    Returns:
        An array of ``x``'s shape and type.
    """
    params = placement.params
    scheme = params.scheme
    if placement.codes is None:
        return fake_quantize(x, params.scale, scheme.format, scheme.granularity, params.zero_point)
    codes = unpack(np.frombuffer(placement.codes.make(), np.uint8), scheme.format, x.shape)
    return dequantize(codes, params.scale, scheme.granularity, params.zero_point, output_dtype=x.dtype)
