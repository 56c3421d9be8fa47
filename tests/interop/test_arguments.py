"""Arguments that the systems share: real inputs, scales of the real side's type, codes of few types."""

from fractions import Fraction

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from support import numbers, rational

from qdqtool.errors import ArgumentError
from qdqtool.interop._arguments import codes_of, real_side, scale_like
from qdqtool.numerics import formats


@pytest.mark.parametrize("dtype", numbers.REAL.values())
def test_real_types_of_onnx_are_taken_as_they_are(dtype):
    x = np.asarray([1.5, -2], dtype)
    assert real_side(x, "x") is x


@pytest.mark.parametrize("x", [np.float64([0.1, 1e300]), np.int32([3, -4]), [0.1, 2], 7, np.array([True, False])])
def test_other_numbers_are_rounded_to_float32(x):
    found = real_side(x, "x")
    assert found.dtype == np.float32
    with np.errstate(over="ignore"):
        np.testing.assert_array_equal(found, np.asarray(x).astype(np.float32))


@given(st.floats(2.0**-10, 2.0**10), st.sampled_from(sorted(numbers.REAL)))
def test_a_number_is_rounded_once_to_the_type_of_the_real_side(scale, name):
    found = scale_like(scale, np.dtype(numbers.REAL[name]))
    assert found.dtype == numbers.REAL[name]
    assert Fraction(float(found)) == rational.round_real(rational.real(scale), name).size


@pytest.mark.parametrize(("name", "bits"), [("float16", 11), ("bfloat16", 8)])
def test_a_number_just_above_a_tie_is_rounded_up_although_float32_is_the_tie(name, bits):
    above = 1 + 2.0**-bits + 2.0**-40
    assert float(np.float32(above)) == 1 + 2.0**-bits
    assert float(scale_like(above, np.dtype(numbers.REAL[name]))) == 1 + 2.0 ** (1 - bits)


def test_whole_numbers_and_lists_are_scales_too():
    assert scale_like(2, np.dtype(np.float16)).dtype == np.float16
    np.testing.assert_array_equal(scale_like([1, 3], np.dtype(np.float32)), np.float32([1, 3]))


def test_an_array_of_another_type_is_refused():
    message = "scale has type float32, not the type of the real values, float16"
    with pytest.raises(ArgumentError, match=message):
        scale_like(np.float32(1), np.dtype(np.float16))


@pytest.mark.parametrize("bad", [0.0, -1.0, np.inf, np.nan])
def test_a_scale_is_finite_and_positive_after_it_was_rounded(bad):
    with pytest.raises(ArgumentError, match="every scale must be finite and greater than 0"):
        scale_like([1.0, bad], np.dtype(np.float32))
    with pytest.raises(ArgumentError, match="scale is 0"):
        scale_like(1e-300, np.dtype(np.float32))


def test_codes_come_with_their_format():
    codes, fmt = codes_of(np.array([1, -2], ml_dtypes.int4), "q", ("int4", "int8"))
    assert codes.dtype == ml_dtypes.int4
    assert fmt is formats.get("int4")


@pytest.mark.parametrize("q", [np.uint8([1]), np.float32([1]), [1, 2]])
def test_codes_of_another_type_are_answered_with_the_legal_ones(q):
    with pytest.raises(ArgumentError, match=r"q has type (uint8|float32|int64); legal: int4, int8$"):
        codes_of(q, "q", iter(("int4", "int8")))
