"""From quotients to codes: round half to even onto a format's grid, add the zero point, saturate.

Clipping comes before any cast, since casts of NumPy and ml_dtypes wrap, saturate or give NaN as each type pleases.
"""

import numpy as np

from qdqtool.numerics.dtypes import Array
from qdqtool.numerics.number_format import NumberFormat


def to_integer(quotient: Array, fmt: NumberFormat, zero_point: Array | None) -> Array:
    """``saturate(round(quotient) + zero_point)``.

    Float32 holds every sum exactly up to 2**24 in size, and beyond that its rounding cannot bring one back into a
    range of 16 bits.

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
    np.fmax(quotient, np.float32(fmt.low), out=quotient)
    np.minimum(quotient, np.float32(fmt.high), out=quotient)
    if fmt.bits >= 8:
        return quotient.astype(fmt.dtype)
    return quotient.astype(np.int8).astype(fmt.dtype)


def to_float(quotient: Array, fmt: NumberFormat, *, saturate: bool) -> Array:
    """``quotient`` on a floating-point grid.

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
