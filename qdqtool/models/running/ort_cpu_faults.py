"""Predict where ONNX Runtime's QuantizeLinear differs from the ONNX specification, so that a check can name the fault.

Measured on ONNX Runtime 1.31 (CPU): it divides float16 in float32 and ignores ``precision``. Some conversions of huge
or infinite quotients wrap through a 32-bit integer. fp8 without saturation gives different codes in one window above
the range.
"""

from dataclasses import dataclass

import numpy as np

from qdqtool.numerics.affine import quantize
from qdqtool.numerics.dtypes import BFLOAT16, FLOAT16, FLOAT32, FLOAT64, Array
from qdqtool.numerics.granularity import Granularity, expand
from qdqtool.numerics.number_format import NumberFormat

F32_DIVISION = "divides in float32 where ONNX divides in the scale's type or `precision`"
WRAP = "wraps quotients beyond 2^31, infinities and NaN through a 32-bit integer"
FP8_WINDOW = "gives other codes just above the fp8 range when `saturate` is 0"
IGNORED_ZERO_POINT = "ignores a zero point that is not 0 for fp8"

_WRAP_LIMIT = 2.0**31
# Quotients that round beyond the largest value. ONNX Runtime 1.31.1 returns 448 from 480 to 496 for e4m3fn, where ONNX
# requires NaN, and NaN from 61440 to 65536 for e5m2, where ONNX requires infinity.
_WINDOWS = {"float8e4m3fn": (464.0, 496.0), "float8e5m2": (61440.0, 65536.0)}


@dataclass(frozen=True, slots=True)
class QuantizeCall:
    """The inputs and attributes of a QuantizeLinear node.

    Attributes:
        x: Data, of any shape.
        scale: The scale of the node, in the shape that ``granularity`` requires.
        zero_point: Zero point in the shape of the scale, or None.
        fmt: Format of the result.
        granularity: Which elements share a scale.
        saturate: The attribute ``saturate``, which applies to fp8.
        precision: The type that the attribute ``precision`` names; None without the attribute.
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
    """The result that is expected of ONNX Runtime.

    Attributes:
        codes: The codes of our own core, which here divides in float32 as ONNX Runtime does.
        undefined: Mask of the elements for which ONNX Runtime is known to be wrong; None if there are none.
        faults: The known faults that affect this call, each with the number of elements that it changes.
    """

    codes: Array
    undefined: Array | None
    faults: dict[str, int]


def expected_codes(call: QuantizeCall) -> Expected:
    """Return the codes that ONNX Runtime should give, and the elements for which it is known to be wrong."""
    faults: dict[str, int] = {}
    zero = call.zero_point
    if zero is not None and call.fmt.zero_point == "zero" and np.any(zero.astype(FLOAT32) != 0):
        zero = None
        faults[IGNORED_ZERO_POINT] = int(call.x.size)
    # A session rounds quotients to bfloat16 where all elements have one scale.
    is_rounded = call.scale.dtype == BFLOAT16 and call.scale.size == 1 and call.precision in {None, BFLOAT16}
    codes = _codes(call, zero, BFLOAT16 if is_rounded else FLOAT32)
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
    """Return a mask of the elements for which ONNX Runtime is known to be wrong, and count them in ``faults``."""
    # Measured with 1.31.1: float32 data saturates correctly for 8 bits and more. Float16 data of +inf gives the lowest
    # code; so does 3e9 for int2.
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
