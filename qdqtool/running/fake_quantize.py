"""What a tensor is once its pair is in."""

import numpy as np

from qdqtool.numerics.affine import dequantize, fake_quantize
from qdqtool.numerics.dtypes import Array
from qdqtool.numerics.packing import unpack
from qdqtool.plan import Placement


def rounded(x: Array, placement: Placement) -> Array:
    """``x`` quantized and dequantized: to the codes that the plan has for it, else to the nearest.

    Args:
        x: Values of the tensor, as stored where it is a constant.
        placement: Its pair.

    Returns:
        An array of ``x``'s shape and type.
    """
    params = placement.params
    scheme = params.scheme
    if placement.codes is None:
        return fake_quantize(x, params.scale, scheme.format, scheme.granularity, params.zero_point)
    codes = unpack(np.frombuffer(placement.codes, np.uint8), scheme.format, x.shape)
    return dequantize(codes, params.scale, scheme.granularity, params.zero_point, output_dtype=x.dtype)
