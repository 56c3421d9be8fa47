"""From quotients to codes, against integer arithmetic and bit layouts; clipping comes before the cast."""

from fractions import Fraction

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from support import numbers, rational

from qdqtool.errors import ArgumentError
from qdqtool.numerics import formats
from qdqtool.numerics.dtypes import BFLOAT16, FLOAT8E8M0, FLOAT16, FLOAT32, FLOAT64
from qdqtool.numerics.rounding import (
    code_steps,
    division,
    magnitudes,
    representable,
    round_once,
    step_widths,
    to_float,
    to_integer,
    unit_roundoff,
)

HALVES = st.integers(-600, 600).map(lambda count: count / 2)
QUOTIENTS = arrays(np.float32, st.integers(1, 20), elements=st.floats(width=32) | HALVES)
SPECIAL = np.float32([np.nan, np.inf, -np.inf])


@given(st.sampled_from(numbers.INTEGER), QUOTIENTS, st.data())
def test_integers_are_rounded_half_to_even_before_the_zero_point_is_added(name, quotients, data):
    fmt = formats.get(name)
    zero = data.draw(st.integers(int(fmt.low), int(fmt.high)))
    expected = [rational.integer_code(rational.real(quotient), name, zero) for quotient in quotients]
    with np.errstate(all="ignore"):
        codes = to_integer(quotients.copy(), fmt, np.float32(zero))
    assert codes.dtype == fmt.dtype
    assert codes.astype(np.int64).tolist() == expected


def test_half_way_codes_of_an_odd_zero_point_depend_on_the_order_of_rounding_and_adding():
    codes = to_integer(np.float32([0.5, 1.5, 2.5, -0.5]), formats.get("int8"), np.float32(1))
    assert codes.tolist() == [1, 3, 3, 1]


@pytest.mark.parametrize("name", numbers.INTEGER)
def test_nan_becomes_the_lowest_integer_and_infinities_the_bounds(name):
    fmt = formats.get(name)
    codes = to_integer(SPECIAL.copy(), fmt, None)
    assert codes.astype(np.int64).tolist() == [fmt.low, fmt.high, fmt.low]


@pytest.mark.parametrize("name", [name for name in numbers.FLOAT if formats.get(name).has_nan])
def test_nan_stays_nan_in_a_float_that_has_it(name):
    fmt = formats.get(name)
    codes = to_float(SPECIAL.copy(), fmt, saturate=True)
    np.testing.assert_array_equal(codes.astype(np.float32), [np.nan, fmt.high, fmt.low])


@given(st.sampled_from(numbers.FLOAT), QUOTIENTS, st.booleans())
def test_small_floats_are_those_of_the_bit_layout(name, quotients, saturate):
    fmt = formats.get(name)
    expected = [rational.float_code(rational.real(quotient), name, saturate=saturate) for quotient in quotients]
    with np.errstate(all="ignore"):
        codes = to_float(quotients.copy(), fmt, saturate=saturate)
    wanted = np.int64([rational.ANY_NAN if code is None else code for code in expected])
    numbers.assert_codes(codes, wanted, fmt)


@pytest.mark.parametrize("name", ["float6e2m3", "float6e3m2", "float4e2m1"])
def test_formats_without_nan_saturate_even_when_saturation_is_off(name):
    fmt = formats.get(name)
    codes = to_float(np.float32([1e30, -np.inf, np.nan]), fmt, saturate=False)
    np.testing.assert_array_equal(codes.astype(np.float32), [fmt.high, fmt.low, fmt.low])


# The values of number formats, against the bit layouts of the ONNX and OCP texts.


@pytest.mark.parametrize("name", numbers.INTEGER)
def test_an_integer_format_has_every_integer_between_its_ends(name):
    low, high = rational.INTEGERS[name]
    np.testing.assert_array_equal(representable(formats.get(name)), list(range(low, high + 1)))


@pytest.mark.parametrize("name", numbers.FLOAT)
def test_a_small_float_has_the_finite_values_of_its_layout_and_one_zero(name):
    sizes = [float(size) for size in rational.magnitudes(name)]
    expected = sorted({sign * size for size in sizes for sign in (1, -1)})
    np.testing.assert_array_equal(representable(formats.get(name)), expected)


@pytest.mark.parametrize("name", numbers.FLOAT)
def test_magnitudes_begin_at_zero_and_end_at_the_largest_value(name):
    np.testing.assert_array_equal(magnitudes(formats.get(name)), sorted(map(float, rational.magnitudes(name))))


def test_magnitudes_of_a_signed_integer_leave_the_lowest_code_out():
    np.testing.assert_array_equal(magnitudes(formats.get("int4")), range(8))


def test_an_exponent_only_format_has_the_powers_of_two_of_the_ocp_text():
    values = representable(formats.get("float8e8m0"))
    np.testing.assert_array_equal(values, [2.0**exponent for exponent in range(-127, 128)])


@pytest.mark.parametrize("kind", ["float8e4m3fn", "float8e5m2", "float4e2m1"])
def test_a_step_of_a_float_format_is_the_gap_around_the_value(kind):
    fmt = formats.get(kind)
    grid = representable(fmt)
    gaps = np.diff(grid)
    assert np.array_equal(step_widths((grid[:-1] + grid[1:]) / 2, fmt), gaps)
    assert step_widths(np.float64([-1e9, 1e9]), fmt).tolist() == [gaps[0], gaps[-1]]
    # A value of the grid itself belongs to the gap below.
    assert np.array_equal(step_widths(grid[1:], fmt), gaps)


def test_a_step_of_an_integer_format_is_one_everywhere():
    assert np.array_equal(step_widths(np.float64([-300, 0.4, 7]), formats.get("int8")) * np.ones(3), np.ones(3))


# Distances on the grid of a format: counted one code after the other, on every pair of codes.


FLOATS = ("float8e4m3fn", "float8e5m2", "float4e2m1")


def values(kind: str) -> np.ndarray:
    """All finite values of a float format, in order, each once."""
    fmt = formats.get(kind)
    codes = np.arange(2**fmt.bits, dtype=np.uint8).view(fmt.dtype).astype(np.float64)
    return np.unique(codes[np.isfinite(codes)])


@pytest.mark.parametrize("kind", ["int8", "uint8", "int4", "uint4"])
def test_integers_are_as_many_steps_apart_as_they_differ(kind: str) -> None:
    fmt = formats.get(kind)
    codes = np.arange(int(fmt.low), int(fmt.high) + 1)
    left, right = (each.astype(fmt.dtype) for each in np.meshgrid(codes, codes))
    found = code_steps(left, right, fmt)
    assert found.dtype == np.float64
    assert np.array_equal(found, np.abs(codes[None, :] - codes[:, None]))


@pytest.mark.parametrize("kind", FLOATS)
def test_floats_are_as_many_steps_apart_as_values_lie_between_them(kind: str) -> None:
    fmt, grid = formats.get(kind), values(kind)
    left, right = (each.astype(fmt.dtype) for each in np.meshgrid(grid, grid))
    places = np.arange(grid.size)
    assert np.array_equal(code_steps(left, right, fmt), np.abs(places[None, :] - places[:, None]))


def test_nan_is_endlessly_far_from_numbers_and_near_to_nan() -> None:
    fmt = formats.get("float8e4m3fn")
    left, right = (np.array(each).astype(fmt.dtype) for each in ([np.nan, 1, np.nan], [1, np.nan, np.nan]))
    assert code_steps(left, right, fmt).tolist() == [np.inf, np.inf, 0]


@pytest.mark.parametrize(
    ("kind", "roundoff"), [(np.float32, -24), (np.float64, -24), (np.float16, -11), (ml_dtypes.bfloat16, -8)]
)
def test_a_rounding_is_off_by_half_the_epsilon_of_the_type(kind: type, roundoff: int) -> None:
    assert unit_roundoff(np.dtype(kind)) == 2.0**roundoff


# The quotient is the exact one, rounded once: for every pair of types against fractions.


X_TYPES = {**numbers.REAL, "int32": np.int32}


def exact_quotients(x, scale, precision):
    """Quotients as float64, rounded once in integer arithmetic; NaN and infinities as IEEE 754 has them."""
    found = []
    for value, step in zip(x, scale, strict=True):
        quotient = rational.round_real(rational.divide(rational.real(value), rational.real(step)), precision)
        size = float(quotient.size)  # a fraction, "inf" or "nan"
        found.append(-size if quotient.negative else size)
    return np.float64(found)


def quotients(x, scale, precision=None):
    divide = division(x.dtype, scale.dtype, precision)
    with np.errstate(all="ignore"):
        return divide, divide(x, scale.astype(divide.work))


@pytest.mark.parametrize("precision", [None, *numbers.REAL])
@pytest.mark.parametrize("scale_type", numbers.SCALE)
@pytest.mark.parametrize("x_type", X_TYPES)
def test_every_pair_of_types_rounds_the_exact_quotient_once(x_type, scale_type, precision):
    rng = np.random.default_rng(11)
    scale = numbers.scales(rng, 60, scale_type)
    x = numbers.random_bits(rng, 60, X_TYPES[x_type])
    divide, found = quotients(x, scale, None if precision is None else np.dtype(numbers.REAL[precision]))
    used = precision or ("float32" if scale_type == "float8e8m0" else scale_type)
    assert divide.precision == numbers.REAL[used]
    assert found.dtype == np.float32
    np.testing.assert_array_equal(found.astype(np.float64), exact_quotients(x, scale, used))


@given(st.integers(-(2**31), 2**31 - 1), st.floats(2.0**-20, 2.0**20, width=32))
def test_integers_beyond_24_bits_are_not_rounded_before_they_are_divided(x, scale):
    values, steps = np.int32([x]), np.float32([scale])
    _, found = quotients(values, steps)
    np.testing.assert_array_equal(found.astype(np.float64), exact_quotients(values, steps, "float32"))


@pytest.mark.parametrize(
    ("x_type", "scale_type", "precision", "work"),
    [
        (FLOAT32, FLOAT32, None, FLOAT32),
        (FLOAT16, FLOAT16, None, FLOAT32),
        (BFLOAT16, BFLOAT16, None, FLOAT32),
        (FLOAT16, FLOAT8E8M0, None, FLOAT32),
        (FLOAT32, FLOAT16, None, FLOAT64),
        (FLOAT16, FLOAT16, BFLOAT16, FLOAT64),
        (np.dtype(np.int32), FLOAT32, None, FLOAT64),
    ],
)
def test_the_narrow_type_is_used_only_where_it_is_wide_enough(x_type, scale_type, precision, work):
    assert division(x_type, scale_type, precision).work == work


@given(st.floats(2.0**-120, 2.0**120), st.integers(-3, 3))
def test_float64_becomes_bfloat16_in_one_rounding(base, ulps):
    """Near a tie of bfloat16, where a stop at float32 would round onto the tie and then to even."""
    tie = float(np.float64(base).astype(ml_dtypes.bfloat16)) * (1 + 2.0**-8)
    value = np.float64([tie * (1 + ulps * 2.0**-50), -tie * (1 + ulps * 2.0**-50)])
    expected = [rational.round_real(rational.real(one), "bfloat16") for one in value]
    found = round_once(value, BFLOAT16)
    assert [Fraction(float(one)) for one in found] == [one.value for one in expected]


@pytest.mark.parametrize("dtype", [FLOAT32, FLOAT16, BFLOAT16], ids=str)
def test_specials_keep_their_kind_and_sign(dtype):
    special = np.float64([np.nan, np.inf, -np.inf, 0.0, -0.0])
    found = round_once(special, dtype).astype(np.float64)
    np.testing.assert_array_equal(found, special)
    np.testing.assert_array_equal(np.signbit(found[1:]), np.signbit(special[1:]))


def test_an_unknown_precision_is_answered_with_the_legal_ones():
    with pytest.raises(ArgumentError, match="precision is float64; legal: float32, float16, bfloat16"):
        division(FLOAT32, FLOAT32, FLOAT64)
