"""Arguments that the systems share: real inputs, scales of the real side's type, codes of few types."""

from fractions import Fraction

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from support import numbers, rational

from qdqtool.errors import ArgumentError
from qdqtool.interop._arguments import (
    code_array,
    codes_of,
    format_of,
    granularity_of,
    real_array,
    real_side,
    real_type,
    scale_array,
    scale_like,
    zero_point_array,
)
from qdqtool.numerics import formats
from qdqtool.numerics.granularity import Blocked, PerAxis, PerTensor


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


@pytest.mark.parametrize("name", formats.names())
def test_a_format_goes_by_its_name_its_type_and_its_scalar_class(name):
    fmt = formats.get(name)
    assert {format_of(spelled) for spelled in (name, fmt.dtype, fmt.dtype.type)} == {fmt}


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ("int-8", "dtype is int-8; legal: float4e2m1.*uint8; did you mean 'int8'"),
        ("i1", "dtype is i1; legal"),  # the name counts, not what NumPy makes of it
        (np.int64, "dtype is <class 'numpy.int64'>; legal"),
        (object(), "dtype is <object object at .*>; it is neither an ONNX type name nor a NumPy type"),
    ],
)
def test_an_unknown_format_is_answered_with_the_legal_ones(wrong, message):
    with pytest.raises(ArgumentError, match=message):
        format_of(wrong)


def test_the_argument_is_named_as_the_caller_has_it():
    with pytest.raises(ArgumentError, match=r"^otype is gold;"):
        format_of("gold", "otype")


@pytest.mark.parametrize("name", numbers.REAL)
def test_a_real_type_goes_by_name_and_type(name):
    for spelled in (name, numbers.REAL[name], np.dtype(numbers.REAL[name])):
        assert real_type(spelled, "dtype") == numbers.REAL[name]


@pytest.mark.parametrize("wrong", ["float64", np.int8, "int8"])
def test_another_real_type_is_refused(wrong):
    with pytest.raises(ArgumentError, match=r"precision is .*; legal: float32, float16, bfloat16"):
        real_type(wrong, "precision")


@pytest.mark.parametrize(
    ("x", "dtype"),
    [
        (np.float16([1]), np.float16),
        (np.asarray([1], ml_dtypes.bfloat16), ml_dtypes.bfloat16),
        (np.int32([1]), np.int32),
        (np.float64([1]), np.float32),
        (np.int64([1]), np.float32),
        (np.int32(1), np.float32),
        (np.uint8([1]), np.float32),
        ([1, 2], np.float32),
        (True, np.float32),
    ],
)
def test_real_arrays_have_a_type_that_onnx_quantizes(x, dtype):
    assert real_array(x, "x").dtype == dtype


def test_what_is_too_large_for_float32_becomes_infinite_without_a_warning():
    assert real_array(1e300, "x") == np.inf


@pytest.mark.parametrize("x", [["a"], [1j], np.array([None])])
def test_what_holds_no_real_numbers_is_refused(x):
    with pytest.raises(ArgumentError, match=r"x has type .*; legal: float32, float16, bfloat16, int32, float64"):
        real_array(x, "x")


@pytest.mark.parametrize("dtype", numbers.SCALE.values())
def test_scales_keep_the_types_of_onnx(dtype):
    scale = np.asarray([2.0], dtype)
    assert scale_array(scale) is scale


@pytest.mark.parametrize("scale", [0.1, [1, 2], np.int32([3]), np.float64(0.5)])
def test_other_scales_are_rounded_to_float32(scale):
    found = scale_array(scale)
    assert found.dtype == np.float32
    np.testing.assert_array_equal(found, np.asarray(scale).astype(np.float32))


@pytest.mark.parametrize("name", [*numbers.QUANTIZED, "int32"])
def test_codes_are_of_a_type_that_onnx_dequantizes(name):
    codes = np.zeros(2, formats.get(name).dtype)
    assert code_array(codes) is codes


@pytest.mark.parametrize("codes", [[1, 2], np.float32([1]), np.asarray([1], ml_dtypes.float8_e8m0fnu)])
def test_other_arrays_are_no_codes(codes):
    with pytest.raises(ArgumentError, match=r"q has type .*; legal: float4e2m1, .*uint8$") as caught:
        code_array(codes)
    assert "float8e8m0" not in str(caught.value).split("legal:")[1]


@pytest.mark.parametrize(("given_shape", "scale_shape"), [((), (1,)), ((1,), ()), ((), ()), ((1,), (1,)), ((2,), (2,))])
def test_one_element_is_one_element_whatever_its_rank(given_shape, scale_shape):
    found = zero_point_array(np.full(given_shape, 3), scale_shape)
    np.testing.assert_array_equal(found, np.full(scale_shape, 3))
    assert found.shape == scale_shape


@pytest.mark.parametrize(
    ("zero_point", "shape", "message"),
    [
        ([1, 2], (3,), r"zero_point has shape \[2\], not the shape of scale, \[3\]"),
        ([[1]], (1,), r"zero_point has shape \[1, 1\], not the shape of scale, \[1\]"),
        ([1.0, 2.5], (2,), "zero_point is fractional; it must be a whole number of steps"),
        ([np.nan, 1.0], (2,), "zero_point is fractional"),
    ],
)
def test_zero_points_of_another_shape_and_parts_of_a_step_are_refused(zero_point, shape, message):
    with pytest.raises(ArgumentError, match=message):
        zero_point_array(zero_point, shape)


def test_whole_numbers_of_a_float_type_are_zero_points():
    np.testing.assert_array_equal(zero_point_array(np.float32([3, -4]), (2,)), [3, -4])


@given(st.lists(st.integers(1, 5), min_size=1, max_size=4).map(tuple), st.data())
def test_the_shape_of_a_scale_says_what_it_is_shared_over(shape, data):
    axis = data.draw(st.integers(-len(shape), len(shape) - 1))
    block = data.draw(st.integers(1, 6))
    assert granularity_of((), shape, data.draw(st.none() | st.just(axis)), None) == PerTensor()
    assert granularity_of((1,), shape, None, None) == PerTensor()
    blocked = Blocked(axis, block)
    assert granularity_of(blocked.scale_shape(shape), shape, axis, block) == blocked
    if shape[axis] > 1:
        assert granularity_of((shape[axis],), shape, axis, None) == PerAxis(axis)


def test_a_block_size_of_zero_is_none():
    assert granularity_of((3,), (3, 4), 0, 0) == PerAxis(0)


@pytest.mark.parametrize(
    ("scale_shape", "axis", "block_size", "message"),
    [
        ((3,), None, None, "axis is missing; a scale of 3 elements needs an axis"),
        ((3, 2), None, 2, "axis is missing; block_size needs the axis along which the blocks lie"),
        ((3, 2), 1, None, r"block_size is missing; a scale of shape \[3, 2\] on a tensor of shape \[3, 4\] is blocked"),
    ],
)
def test_what_the_shape_alone_does_not_tell_must_be_said(scale_shape, axis, block_size, message):
    with pytest.raises(ArgumentError, match=message):
        granularity_of(scale_shape, (3, 4), axis, block_size)
