"""The canonical arithmetic of QuantizeLinear and DequantizeLinear on arrays.

Quantize: ``saturate(round_half_even(x / scale) + zero_point)`` with the quotient rounded once to the division
precision. Dequantize: ``(q - zero_point) * scale`` in float32, rounded once to the output type.
Source: the ONNX operator text of QuantizeLinear and DequantizeLinear.
"""

import numpy as np
import numpy.typing as npt

from qdqtool.numerics.granularity import Granularity, expand
from qdqtool.numerics.number_format import NumberFormat

Array = npt.NDArray[np.generic]


def quantize(
    x: Array,
    scale: Array,
    fmt: NumberFormat,
    granularity: Granularity,
    zero_point: Array | None = None,
    *,
    precision: npt.DTypeLike | None = None,
) -> Array:
    """Quantize ``x``.

    Args:
        x: Values of any shape, float32, float16 or bfloat16.
        scale: Real value of one step, of the shape that ``granularity`` asks for.
        fmt: Format of the result.
        granularity: Over which elements a scale is shared.
        zero_point: Codes of real zero, of the scale's shape; None for zero.
        precision: Type in which the quotient is rounded once; default the scale's type.

    Returns:
        An array of ``x``'s shape and type ``fmt.dtype``. Infinities saturate; NaN gives the lowest integer, or NaN
        where the format has one.

    Raises:
        ArgumentError: A shape does not fit.
    """
    division = np.dtype(precision) if precision is not None else scale.dtype
    spread = expand(scale, x.shape, granularity)
    zero = None if zero_point is None else expand(zero_point, x.shape, granularity)
    with np.errstate(all="ignore"):
        quotient = (x.astype(np.float64) / spread.astype(np.float64)).astype(division)
        if fmt.kind == "float":
            clipped = np.clip(quotient.astype(np.float32), np.float32(fmt.low), np.float32(fmt.high))
            return clipped.astype(fmt.dtype)
        codes = np.rint(quotient.astype(np.float64))
        if zero is not None:
            codes = codes + zero.astype(np.float64)
        codes = np.where(np.isnan(codes), fmt.low, np.clip(codes, fmt.low, fmt.high))
        return codes.astype(np.int64).astype(fmt.dtype)


def dequantize(
    q: Array,
    scale: Array,
    granularity: Granularity,
    zero_point: Array | None = None,
    *,
    output_dtype: npt.DTypeLike | None = None,
) -> Array:
    """Dequantize ``q``.

    Args:
        q: Codes of any shape, in a quantized type.
        scale: Real value of one step, of the shape that ``granularity`` asks for.
        granularity: Over which elements a scale is shared.
        zero_point: Codes of real zero, of the scale's shape; None for zero.
        output_dtype: Type of the result; default the scale's type.

    Returns:
        An array of ``q``'s shape.

    Raises:
        ArgumentError: A shape does not fit.
    """
    spread = expand(scale, q.shape, granularity).astype(np.float32)
    # int64 keeps int32 codes less their zero point exact until the one conversion to float32
    codes = q.astype(np.int64) if q.dtype.kind in "iu" else q.astype(np.float32)
    if zero_point is not None:
        codes = codes - expand(zero_point, q.shape, granularity).astype(codes.dtype)
    with np.errstate(all="ignore"):
        real = codes.astype(np.float32) * spread
        return real.astype(output_dtype if output_dtype is not None else scale.dtype)
