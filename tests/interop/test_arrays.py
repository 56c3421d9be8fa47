"""The array API: types by name, what is converted, and what is refused with the legal values."""

import ml_dtypes
import numpy as np
import pytest

import qdqtool as qdq
from qdqtool.interop import arrays
from qdqtool.numerics.derive import ScaleRule

X = np.float32([[0.1, 0.25, -0.3], [2, -4, 8]])


def test_per_axis_round_trip():
    q = qdq.quantize(X, [0.1, 1.0], "int8", axis=0)
    np.testing.assert_array_equal(q, [[1, 2, -3], [2, -4, 8]])
    np.testing.assert_array_equal(qdq.dequantize(q, [0.5, 1.0], "float16", axis=0), [[0.5, 1, -1.5], [2, -4, 8]])


@pytest.mark.parametrize("dtype", ["int4", ml_dtypes.int4, np.dtype(ml_dtypes.int4)])
def test_formats_go_by_name_or_type(dtype):
    assert qdq.quantize(X, 1.0, dtype).dtype == ml_dtypes.int4


def test_numbers_lists_and_float64_count_as_float32():
    assert qdq.quantize(8.95, 0.1, "int8") == 90
    assert qdq.quantize([8.95], np.float64(0.1), "int8")[0] == 90
    assert qdq.quantize(np.arange(3), 1, "uint8").tolist() == [0, 1, 2]
    assert qdq.fake_quantize(np.float64([0.26]), 0.5, "int8").dtype == np.float32


def test_real_types_are_kept_where_onnx_has_them():
    half = X.astype(ml_dtypes.bfloat16)
    assert qdq.fake_quantize(half, 0.5, "int8").dtype == half.dtype
    assert qdq.dequantize(np.int8([1]), 0.5, "bfloat16").dtype == ml_dtypes.bfloat16


def test_blocks_with_a_short_last_one_and_zero_points():
    q = qdq.quantize(X, [[0.1, 1], [1, 2]], "uint8", axis=1, block_size=2, zero_point=[[0, 128], [10, 0]])
    np.testing.assert_array_equal(q, [[1, 2, 128], [12, 6, 4]])


def test_saturate_and_precision_are_passed_on():
    assert np.isnan(qdq.quantize([500.0], 1, "float8e4m3fn", saturate=False).astype(np.float32))[0]
    assert qdq.quantize(np.float32([8.948]), 0.1, "int8", precision="float16")[0] == 90
    assert qdq.quantize(np.float32([8.948]), 0.1, "int8")[0] == 89


def test_scales_of_a_tensor():
    scale, zero = arrays.scale_from_tensor(X, "int8", axis=0)
    np.testing.assert_array_equal(scale, np.float32([np.float32(0.3) / np.float64(127), 8 / 127]))
    assert zero is None
    scale, zero = arrays.scale_from_tensor(X, "uint4", axis=1, block_size=2, symmetric=False, search=True)
    assert scale.shape == zero.shape == (2, 2)
    assert arrays.scale_from_tensor(X, "int8", rule=ScaleRule(dtype=np.dtype(np.float16)))[0].dtype == np.float16


def test_scales_of_ranges():
    scale, zero = arrays.scale_from_range([-1, 0], 3, "uint8", symmetric=False)
    np.testing.assert_array_equal(scale, np.float32([4 / 255, 3 / 255]))
    np.testing.assert_array_equal(zero, [64, 0])


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: qdq.quantize(X, 1, "fp8"), "dtype is fp8; legal: float4e2m1.*uint8"),
        (lambda: qdq.quantize(X, 1, "int9"), "did you mean 'int8'"),
        (lambda: qdq.quantize(X, 1, np.int64), "dtype is <class 'numpy.int64'>; legal"),
        (lambda: qdq.quantize(X, 1, {}), "dtype is {}"),
        (lambda: qdq.quantize(X, 1, "int32"), "format is int32; ONNX does not quantize to it"),
        (lambda: qdq.quantize(X, 0, "int8"), "scale is 0; every scale must be finite and greater than 0"),
        (lambda: qdq.quantize(X, [1, 1], "int8"), "axis is missing; a scale of 2 elements needs an axis"),
        (lambda: qdq.quantize(X, [1, 1], "int8", axis=1), r"scale has shape \[2\]; per-axis 1 .* needs \[3\]"),
        (lambda: qdq.quantize(X, [[1], [1]], "int8"), r"block_size is missing; a scale of shape \[2, 1\]"),
        (lambda: qdq.quantize(X, [[1], [1]], "int8", block_size=3), "axis is missing; block_size needs the axis"),
        (lambda: qdq.quantize(X, 1, "int8", zero_point=[1, 2]), r"zero_point has shape \[2\], not the shape of scale"),
        (lambda: qdq.quantize(X, 1, "int8", zero_point=0.5), "zero_point is fractional"),
        (lambda: qdq.quantize(X, 1, "int8", zero_point=300), "zero_point is 300; int8 allows -128 to 127"),
        (lambda: qdq.quantize(X, 1, "int8", precision="int8"), "precision is int8; legal: float32, float16, bfloat16"),
        (lambda: qdq.quantize(["a"], 1, "int8"), "x has type <U1; legal: float32"),
        (lambda: qdq.quantize([1j], 1, "int8"), "x has type complex128; legal: float32"),
        (lambda: qdq.dequantize([1, 2], 1), "q has type int64; legal: float4e2m1"),
        (lambda: qdq.dequantize(np.int8([1]), 1, "float64"), "dtype is float64; legal: float32, float16, bfloat16"),
        (lambda: qdq.dequantize(np.int8([1]), 1, "gold"), "dtype is 'gold'; it is neither an ONNX type name nor"),
        (lambda: arrays.scale_from_range(1, 0, "int8"), "range is 1 to 0; both ends must be finite and in order"),
    ],
)
def test_illegal_arguments_are_named_with_their_legal_values(call, message):
    with pytest.raises(ValueError, match=message):
        call()
