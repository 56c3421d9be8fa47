"""Turn quotients into codes: round half to even onto a format's grid, add the zero point, saturate.

Values are clipped before any cast, because casts differ by type: NumPy's float32 to int8 wraps 300 to 44, ml_dtypes'
int4 wraps, its fp8 types give NaN or infinity, its fp4 and fp6 types saturate.
"""

import numpy as np

from qdqtool.numerics.dtypes import Array
from qdqtool.numerics.number_format import NumberFormat


def to_integer(quotient: Array, fmt: NumberFormat, zero_point: Array | None) -> Array:
    """Return ``saturate(round(quotient) + zero_point)``.

    Float32 holds every sum up to 2**24 exactly. Beyond that, its rounding cannot bring a sum back into a range of 16
    bits.

    Args:
        quotient: float32; overwritten.
        fmt: An integer format of at most 16 bits.
        zero_point: float32 that broadcasts against ``quotient``, or None.

    Returns:
        Codes in ``fmt.dtype``. NaN gives ``fmt.low``, infinities the bound on their side.
    """
    np.rint(quotient, out=quotient)
    if zero_point is not None:
        quotient += zero_point
    # fmax ignores NaN, so NaN becomes the lowest code; minimum would keep it.
    np.fmax(quotient, np.float32(fmt.low), out=quotient)
    np.minimum(quotient, np.float32(fmt.high), out=quotient)
    if fmt.bits >= 8:
        return quotient.astype(fmt.dtype)
    # Through int8, because ml_dtypes converts float32 to int4 ten times as slowly as int8 to int4 (0.6).
    return quotient.astype(np.int8).astype(fmt.dtype)


def to_float(quotient: Array, fmt: NumberFormat, *, saturate: bool) -> Array:
    """Round ``quotient`` to a floating-point grid.

    Args:
        quotient: float32; overwritten.
        fmt: A floating-point format of at most 8 bits.
        saturate: Whether what rounds beyond the largest value becomes the largest value; else it becomes what
            ``fmt.overflow`` says. Formats that have neither infinity nor NaN always saturate.

    Returns:
        Codes in ``fmt.dtype``. NaN stays NaN where the format has one, and else gives ``fmt.low`` as for integers.
    """
    if saturate or not fmt.has_nan:
        keep_nan = np.maximum if fmt.has_nan else np.fmax
        keep_nan(quotient, np.float32(fmt.low), out=quotient)
        np.minimum(quotient, np.float32(fmt.high), out=quotient)
    return quotient.astype(fmt.dtype)
