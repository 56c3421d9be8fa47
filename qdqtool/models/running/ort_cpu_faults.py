"""Predict where ONNX Runtime's QuantizeLinear differs from the ONNX text, so that a check can name the difference.

Measured on ONNX Runtime 1.31 (CPU): it divides float16 in float32 and ignores ``precision``; some conversions of
huge or infinite quotients wrap through a 32-bit integer; fp8 without saturation gives other codes in one window above
the range.
"""

from dataclasses import dataclass

import numpy as np

from qdqtool.numerics.affine import quantize
from qdqtool.numerics.dtypes import FLOAT16, FLOAT32, FLOAT64, Array
from qdqtool.numerics.granularity import Granularity, expand
from qdqtool.numerics.number_format import NumberFormat

F32_DIVISION = "divides in float32 where ONNX divides in the scale's type or `precision`"
WRAP = "wraps quotients beyond 2^31, infinities and NaN through a 32-bit integer"
FP8_WINDOW = "gives other codes just above the fp8 range when `saturate` is 0"
IGNORED_ZERO_POINT = "ignores a zero point that is not 0 for fp8"

_WRAP_LIMIT = 2.0**31
# Quotients that round beyond the largest value. Of these ONNX Runtime 1.31.1 makes 448 from 480 to 496 for e4m3fn,
# where ONNX says NaN, and NaN from 61440 to 65536 for e5m2, where ONNX says infinity.
_WINDOWS = {"float8e4m3fn": (464.0, 496.0), "float8e5m2": (61440.0, 65536.0)}


@dataclass(frozen=True, slots=True)
class QuantizeCall:
    """The inputs and attributes of one QuantizeLinear.

    Attributes:
        x: Data, of any shape.
        scale: As the node has it, of the shape that ``granularity`` asks for.
        zero_point: The same shape, or None.
        fmt: Format of the result.
        granularity: Over which elements a scale is shared.
        saturate: The attribute, for fp8.
        precision: Type of the ``precision`` attribute; None where it is absent.
    """

    x: Array
    scale: Array
    zero_point: Array | None
    fmt: NumberFormat
    granularity: Granularity
    saturate: bool = True
    precision: np.dtype[np.generic] | None = None


@dataclass(frozen=True, slots=True)
class Expected:
    """The expected result of ONNX Runtime.

    Attributes:
        codes: The codes of our own core, with a division in float32 as in ONNX Runtime.
        undefined: Elements for which ONNX Runtime is known to be wrong; None for none.
        faults: The known faults that this call meets, with the number of elements that each changes.
    """

    codes: Array
    undefined: Array | None
    faults: dict[str, int]


def expected_codes(call: QuantizeCall) -> Expected:
    """Return the codes that ONNX Runtime should give, and the elements for which it is known not to."""
    faults: dict[str, int] = {}
    zero = call.zero_point
    if zero is not None and call.fmt.zero_point == "zero" and np.any(zero.astype(FLOAT32) != 0):
        zero = None
        faults[IGNORED_ZERO_POINT] = int(call.x.size)
    codes = _codes(call, zero, FLOAT32)
    if call.scale.dtype != FLOAT32 or call.precision not in {None, FLOAT32}:
        changed = int(np.count_nonzero(_codes(call, zero, call.precision) != codes))
        if changed:
            faults[F32_DIVISION] = changed
    undefined = _undefined(call, faults)
    return Expected(codes, undefined, faults)


def _codes(call: QuantizeCall, zero_point: Array | None, precision: np.dtype[np.generic] | None) -> Array:
    return quantize(
        call.x, call.scale, call.fmt, call.granularity, zero_point, precision=precision, saturate=call.saturate
    )


def _undefined(call: QuantizeCall, faults: dict[str, int]) -> Array | None:
    """Return the elements where ONNX Runtime is known to be wrong, and count them in ``faults``."""
    # Measured with 1.31.1: float32 data saturates correctly for 8 bits and more. +inf of float16 data gives the
    # lowest code, and so does 3e9 for int2.
    wraps = call.fmt.kind == "integer" and (call.x.dtype == FLOAT16 or call.fmt.bits < 8)
    window = _WINDOWS.get(call.fmt.name) if not call.saturate else None
    if not wraps and window is None:
        return None
    with np.errstate(all="ignore"):
        size = np.abs(call.x.astype(FLOAT64) / expand(call.scale, call.x.shape, call.granularity).astype(FLOAT64))
    mask = ~(size < _WRAP_LIMIT) if window is None else (size >= window[0]) & (size < window[1])
    count = int(np.count_nonzero(mask))
    if not count:
        return None
    faults[WRAP if window is None else FP8_WINDOW] = count
    return np.asarray(mask)
