"""From quotients to codes, against integer arithmetic and bit layouts; clipping comes before the cast."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from support import numbers, rational

from qdqtool.numerics import formats
from qdqtool.numerics.rounding import to_float, to_integer

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
