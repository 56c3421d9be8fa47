"""The quotient is the exact one, rounded once: for every pair of types against fractions."""

from fractions import Fraction

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from support import numbers, rational

from qdqtool.errors import ArgumentError
from qdqtool.numerics.dtypes import BFLOAT16, FLOAT8E8M0, FLOAT16, FLOAT32, FLOAT64
from qdqtool.numerics.rounding import division, round_once

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
