"""Derive scales and zero points from ranges and from tensors.

Symmetric: ``scale = amax / divisor``. Asymmetric: ``scale = (high - low) / (highest_code - lowest_code)`` with zero
inside the range, and ``zero_point = round(lowest_code - low / scale)``. A scale is rounded to the type that the model
stores *before* it is used for anything else, so Q and DQ use exactly the scale that is derived here.
"""

import enum
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from qdqtool.errors import ArgumentError
from qdqtool.numerics.affine import dequantize, fake_quantize, quantize
from qdqtool.numerics.dtypes import BFLOAT16, FLOAT8E8M0, FLOAT16, FLOAT32, FLOAT64, Array
from qdqtool.numerics.granularity import Granularity, PerTensor, expand
from qdqtool.numerics.groups import ranges, reduce_groups
from qdqtool.numerics.noise import decibels
from qdqtool.numerics.number_format import NumberFormat
from qdqtool.numerics.rounding import round_once, step_widths
from qdqtool.numerics.scheme import QuantParams, QuantScheme

SCALE_RANGE: dict[np.dtype[Any], tuple[float, float]] = {
    FLOAT32: (2.0**-126, (2 - 2.0**-23) * 2.0**127),
    BFLOAT16: (2.0**-126, (2 - 2.0**-7) * 2.0**127),
    FLOAT8E8M0: (2.0**-126, 2.0**127),
    FLOAT16: (2.0**-14, 65504.0),
}
"""Smallest and largest scale in each storage type. The smallest is the smallest normal number of the type (of
float32 for float8e8m0). Hardware that flushes subnormals would divide by zero, and subnormals have few bits."""


LEAST_SCALE = 2.0**-23
"""PyTorch's observers make no smaller scale; values that need one are 0 for any purpose."""


class PowerOfTwo(enum.Enum):
    """How a scale becomes a power of two.

    ``FLOOR`` is the rule of the OCP Microscaling text, ``2**(floor(log2(amax)) - emax)``: the largest values may clip.
    ``CEIL`` is ``2**ceil(log2(amax / divisor))``: nothing clips. NVIDIA uses it.
    """

    FLOOR = "floor"
    CEIL = "ceil"


@dataclass(frozen=True, slots=True, kw_only=True)
class ScaleRule:
    """The choices that turn a range into a scale.

    Attributes:
        dtype: Type that the model stores scales in: float32, float16, bfloat16 or float8e8m0. A ``scale_scheme`` of the
            scheme overrides this type.
        narrow_range: Whether to leave out the lowest code of signed integers (-128), so that the codes are symmetric.
        divisor: For symmetric schemes, the code of the largest magnitude. The default is ``fmt.high`` (127, 7, 448);
            other tools also use 128 and 127.5.
        power_of_two: How to round scales to powers of two; None for no rounding, but ``CEIL`` for float8e8m0.
        either_sign: Whether block scales of signed integers may be negative, so that the largest magnitude can have
            the lowest code. Only :func:`qdqtool.numerics.search.least_error` makes such scales.
    """

    dtype: np.dtype[Any] = FLOAT32
    narrow_range: bool = False
    divisor: float | None = None
    power_of_two: PowerOfTwo | None = None
    either_sign: bool = False


DEFAULT_RULE = ScaleRule()


def scale_from_range(
    low: npt.ArrayLike,
    high: npt.ArrayLike,
    scheme: QuantScheme,
    rule: ScaleRule = DEFAULT_RULE,
    outer: QuantParams | None = None,
) -> QuantParams:
    """Derive scales (and zero points) that cover the ranges ``low`` to ``high``.

    Args:
        low: Smallest real values, in the scale's shape.
        high: Largest real values, in the scale's shape.
        scheme: The scheme of the tensor.
        rule: How scales are derived.
        outer: For a two-level scheme, the parameters of its scales. By default, they map the largest range to the
            largest code.

    Returns:
        The parameters. The scale of a range that holds only zero is 1.

    Raises:
        ArgumentError: A range is not finite, ends before it begins, or is negative although the scheme has neither
            sign nor zero point. Or the scheme needs a zero point that its format does not allow.
    """
    bottom, top = np.asarray(low, FLOAT64), np.asarray(high, FLOAT64)
    _check_ranges(bottom, top, scheme)
    return _params(bottom, top, scheme, rule, outer)


def scale_from_tensor(
    x: Array, scheme: QuantScheme, rule: ScaleRule = DEFAULT_RULE, outer: QuantParams | None = None
) -> QuantParams:
    """Derive scales (and zero points) that cover the finite values of each group of ``x``.

    Args:
        x: float32, float16 or bfloat16, of any shape.
        scheme: The scheme of the tensor.
        rule: How scales are derived.
        outer: As for :func:`scale_from_range`.

    Raises:
        ArgumentError: As for :func:`scale_from_range`.
    """
    low, high = ranges(x, scheme.granularity)
    return scale_from_range(low, high, scheme, rule, outer)


def scale_by_mse(
    x: Array, scheme: QuantScheme, rule: ScaleRule = DEFAULT_RULE, shrink: npt.ArrayLike | None = None
) -> QuantParams:
    """For each group, find the scale (and zero point) with the least squared error among ranges of decreasing size.

    Args:
        x: float32, float16 or bfloat16, of any shape.
        scheme: The scheme of the tensor.
        rule: How each candidate is derived.
        shrink: Factors of the full range to try; default 1.00, 0.98, ... 0.20.

    Returns:
        For each group, the candidate with the least ``sum((x - fake_quantize(x))**2)``; on a tie, the larger range.

    Raises:
        ArgumentError: As for :func:`scale_from_range`.
    """
    factors = np.linspace(1.0, 0.2, 41) if shrink is None else np.asarray(shrink, FLOAT64)
    low, high = (bound.astype(FLOAT64) for bound in ranges(x, scheme.granularity))
    _check_ranges(low, high, scheme)
    best: QuantParams | None = None
    least = np.full(low.shape, np.inf)
    # Two-level schemes keep the outer scale of the full range.
    outer = _params(low, high, scheme, rule).scale_params
    for factor in factors:
        candidate = _params(low * factor, high * factor, scheme, rule, outer)
        error = _squared_error(x, candidate.scale, scheme.format, scheme.granularity, candidate.zero_point)
        better = error < least
        least = np.where(better, error, least)
        best = candidate if best is None else _mix(better, candidate, best)
    if best is None:
        raise ArgumentError("shrink is empty; give at least one factor")
    return best


def _squared_error(
    x: Array, scale: Array, fmt: NumberFormat, granularity: Granularity, zero_point: Array | None
) -> Array:
    approximation = fake_quantize(x, scale, fmt, granularity, zero_point)
    with np.errstate(all="ignore"):
        difference = np.asarray(x.astype(FLOAT64) - approximation.astype(FLOAT64))
    np.nan_to_num(difference, copy=False, nan=0.0, posinf=0.0, neginf=0.0)
    return reduce_groups(difference * difference, granularity, np.add)


def _mix(better: Array, new: QuantParams, old: QuantParams) -> QuantParams:
    scale = np.where(better, new.scale, old.scale)
    zero = new.zero_point
    if zero is not None:
        assert old.zero_point is not None
        zero = np.where(better, zero, old.zero_point)
    return QuantParams(new.scheme, scale, zero, new.scale_params)


def _params(
    low: Array, high: Array, scheme: QuantScheme, rule: ScaleRule, outer: QuantParams | None = None
) -> QuantParams:
    fmt = scheme.format
    if scheme.symmetric:
        amax = np.maximum(np.abs(low), np.abs(high))
        scale, stored = _stored_scale(amax, rule.divisor or fmt.high, scheme, rule, outer)
        return QuantParams(scheme, scale, None, stored)
    floor = fmt.low + 1 if rule.narrow_range and fmt.low < 0 else fmt.low
    low, high = np.minimum(low, 0.0), np.maximum(high, 0.0)
    scale, stored = _stored_scale(high - low, fmt.high - floor, scheme, rule, outer)
    zero = np.clip(np.rint(floor - low / scale.astype(FLOAT64)), floor, fmt.high)
    return QuantParams(scheme, scale, zero.astype(np.int32).astype(fmt.dtype), stored)


def _stored_scale(
    span: Array, divisor: float, scheme: QuantScheme, rule: ScaleRule, outer: QuantParams | None
) -> tuple[Array, QuantParams | None]:
    """Return ``span / divisor`` as the model stores it, and the parameters of the scales, or None for float scales."""
    inner = scheme.scale_scheme
    if inner is not None and inner.format.first_opset.quantize is not None:
        return _two_level(span, divisor, inner, outer)
    dtype = rule.dtype if inner is None else inner.format.dtype
    power = rule.power_of_two or (PowerOfTwo.CEIL if dtype == FLOAT8E8M0 else None)
    real = span / divisor if power is None else _power_of_two(span, divisor, scheme.format, power)
    return round_scale(np.where(span > 0, real, 1.0), dtype), None


def _two_level(span: Array, divisor: float, inner: QuantScheme, outer: QuantParams | None) -> tuple[Array, QuantParams]:
    """Quantize the scales with one float32 scale, as NVFP4 stores them."""
    # The outer scale maps the largest span to the largest code: ``amax / (6 * 448)`` for NVFP4. Codes that would be 0
    # become the smallest positive code, because a scale must not be 0.
    if not isinstance(inner.granularity, PerTensor):
        raise ArgumentError(f"scale_scheme is {inner}; only a per-tensor scale of scales is supported")
    if outer is None:
        peak = np.max(span, initial=0.0)
        outer = QuantParams(inner, round_scale(np.asarray(peak / (divisor * inner.format.high) or 1.0), FLOAT32))
    real = np.asarray(span / divisor / outer.scale.astype(FLOAT64), FLOAT32)
    codes = quantize(real, np.ones((), FLOAT32), inner.format, inner.granularity)
    codes = np.where(codes.astype(FLOAT32) > 0, codes, np.asarray(smallest_positive(inner.format), codes.dtype))
    return dequantize(codes, outer.scale, inner.granularity), outer


def _power_of_two(span: Array, divisor: float, fmt: NumberFormat, power: PowerOfTwo) -> Array:
    """Round to powers of two with ``frexp`` (``value = fraction * 2**exponent``), which is exact, unlike ``log2``."""
    if power is PowerOfTwo.FLOOR:
        exponent = np.frexp(span)[1] - 1 - fmt.max_exponent
    else:
        fraction, above = np.frexp(span / divisor)
        # frexp gives fractions from 0.5 up to 1, so 0.5 is a power of two already.
        exponent = np.where(fraction == 0.5, above - 1, above)
    return np.asarray(np.ldexp(1.0, exponent))


def excess_noise(
    x: Array, scale: Array, fmt: NumberFormat, granularity: Granularity, zero_point: Array | None = None
) -> tuple[float, Array, Array]:
    """Return how much more squared error scales give than scales that just hold the values, in dB.

    The error of the latter is a twelfth of the square of each step, as for values that are spread evenly over a step. A
    scale may be up to twice as large (7-bit codes), or the next power of two if all scales are powers of two. No scale
    below 2**-23, or below the smallest one of its type, is expected.

    Args:
        x: As for :func:`qdqtool.numerics.affine.quantize`; the nearest codes are judged.
        scale: Likewise, as the other arguments.
        fmt: Format of the codes.
        granularity: Which elements share a scale.
        zero_point: The zero points, or None.

    Returns:
        The excess over all values, that of each group, and the scales that just hold the values, both in the scale's
        shape. Without error, the excess is minus infinity.
    """
    given = np.abs(scale.astype(FLOAT64))
    low, high = (bound.astype(FLOAT64) for bound in ranges(x, granularity))
    shifted = zero_point is not None and bool(zero_point.astype(FLOAT64).any())
    span = np.maximum(high, 0) - np.minimum(low, 0) if shifted else np.maximum(-low, high)
    least = max(LEAST_SCALE, SCALE_RANGE[scale.dtype][0])
    holding = np.maximum(span / (fmt.high - fmt.low * shifted), least).reshape(scale.shape)
    fitting = np.clip(given, holding, 2 * holding)
    if np.all(np.frexp(given)[0] == 0.5):
        fitting = np.maximum(fitting, np.exp2(np.ceil(np.log2(holding))))
    step: Array = expand(fitting, x.shape, granularity)
    widths = step_widths(x.astype(FLOAT64) / step, fmt) if fmt.kind == "float" else 1.0
    rounding = np.broadcast_to(np.square(widths * step) / 12, x.shape)
    noise = _squared_error(x, scale, fmt, granularity, zero_point).reshape(scale.shape)
    usual = reduce_groups(rounding, granularity, np.add).reshape(scale.shape)
    return float(decibels(noise.sum(), usual.sum())), decibels(noise, usual), holding


def round_scale(scale: Array, dtype: np.dtype[Any]) -> Array:
    """Clip positive scales to :data:`SCALE_RANGE`, and round them half to even to their storage type.

    Args:
        scale: float64, greater than 0; powers of two for float8e8m0.
        dtype: float32, float16, bfloat16 or float8e8m0.

    Returns:
        Scales of type ``dtype`` within :data:`SCALE_RANGE`.
    """
    low, high = SCALE_RANGE[dtype]
    clipped = np.clip(scale, low, high)
    return round_once(clipped.astype(FLOAT32) if dtype == FLOAT8E8M0 else clipped, dtype)


def smallest_positive(fmt: NumberFormat) -> float:
    """Return the smallest positive value of a format; 1 for integers."""
    return 1.0 if fmt.kind == "integer" else float(np.uint8(1).view(fmt.dtype))


def _check_ranges(low: Array, high: Array, scheme: QuantScheme) -> None:
    bad = ~(np.isfinite(low) & np.isfinite(high) & (low <= high))
    if bad.any():
        index = tuple(int(i) for i in np.argwhere(bad)[0])
        raise ArgumentError(
            f"range is {low[index]:g} to {high[index]:g}{f' at index {list(index)}' if index else ''}; "
            "both ends must be finite and in order"
        )
    if not scheme.symmetric and scheme.format.zero_point == "zero":
        raise ArgumentError(f"scheme is asymmetric; {scheme.format} allows only the zero point 0")
    if scheme.symmetric and scheme.format.low == 0 and np.any(low < 0):
        raise ArgumentError(f"range begins at {low.min():g}; {scheme.format} without zero point must begin at 0")
