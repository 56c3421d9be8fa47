"""The worked examples of TensorRT's page and the rules that its builder does not enforce."""

import ml_dtypes
import numpy as np
import pytest

from qdqtool.errors import ArgumentError
from qdqtool.interop import tensorrt

X = np.float32([[[[0.56, 0.89, 1.4], [-0.56, 0.39, 6.0], [0.67, 0.11, -3.6]]]])
W = np.float32(
    [
        [1.0, 1.0, 2.0, 2.0, 3.0, 3.0, 4.0, 4.0],
        [1.1, 1.2, 2.1, 2.2, 3.1, 3.2, 4.1, 4.2],
        [4.0, 4.0, 5.0, 5.0, 6.0, 6.0, 7.0, 7.0],
        [4.1, 4.2, 5.1, 5.2, 6.1, 6.2, 7.1, 7.2],
    ]
)
BLOCKS = np.float32([[1, 1, 2, 2, 3, 3, 4, 4], [4, 4, 5, 5, 6, 6, 7, 7]])
Q8 = np.zeros((2, 4, 6), np.int8)


def test_a_scale_of_one_element_is_per_tensor_whatever_the_axis():
    scale = np.float32([1 / 127])
    codes = tensorrt.quantize(X, scale, "int8", axis=3)
    np.testing.assert_array_equal(codes[0, 0], [[71, 113, 127], [-71, 50, 127], [85, 14, -128]])
    output = tensorrt.dequantize(codes, scale, axis=3)
    # the page prints two digits, and -1.0 where clamping to -128 gives -128/127
    expected = [[0.56, 0.89, 1], [-0.56, 0.39, 1.0], [0.67, 0.11, -1.0]]
    np.testing.assert_allclose(output[0, 0], expected, rtol=0, atol=0.008)
    assert output[0, 0, 2, 2] == np.float32(-128) * np.float32(1 / 127)


def test_block_quantization():
    codes = tensorrt.quantize(W, BLOCKS, "int4")
    output = tensorrt.dequantize(codes, BLOCKS, "float32")
    np.testing.assert_array_equal(output, np.repeat(BLOCKS, 2, axis=0))


def test_blocks_along_the_last_dimension_of_any_rank():
    x = np.arange(2 * 3 * 32, dtype=np.float32).reshape(2, 3, 32)
    scale = np.full((2, 3, 2), 4, np.float32)
    codes = tensorrt.quantize(x, scale, "fp4")
    assert codes.dtype == ml_dtypes.float4_e2m1fn
    assert codes[0, 0, 12] == 3


def test_zero_points_of_zero_are_taken():
    zero = np.zeros(3, np.float32)
    codes = tensorrt.quantize(X, [0.1, 0.2, 0.3], "int8", axis=2, zero_point=zero)
    assert codes[0, 0, 1, 1] == 2
    assert tensorrt.dequantize(codes, [0.1, 0.2, 0.3], "bfloat16", 2, zero).dtype == ml_dtypes.bfloat16


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: tensorrt.quantize(X, 1.0, "uint8"), r"dtype is uint8; legal: int8.*int8 with zero point z - 128"),
        (lambda: tensorrt.quantize(X, 1.0, "int8", zero_point=3), "zero_point is 3; TensorRT allows only 0"),
        (lambda: tensorrt.quantize(X, 1.0, "int8", zero_point=[0, 0]), r"zero_point has shape \[2\]"),
        (lambda: tensorrt.quantize(X, [1, 2, 3], "int8"), "axis is missing; a scale of 3 elements"),
        (lambda: tensorrt.quantize(X, [1, 2], "int8", axis=3), "scale has 2 elements; axis 3 of the input has 3"),
        (lambda: tensorrt.quantize(X, 1.0, "int8", axis=7), "axis is 7; a tensor of rank 4 has axes -4 to 3"),
        (lambda: tensorrt.quantize(X, -1.0, "int8"), "scale is -1; every scale must be finite and greater than 0"),
        (lambda: tensorrt.dequantize(Q8, np.ones((2, 2, 3))), "only one of the last two dimensions may be blocked"),
        (lambda: tensorrt.dequantize(Q8, np.ones((1, 4, 6))), "only one of the last two dimensions may be blocked"),
        (lambda: tensorrt.dequantize(Q8, np.ones((2, 4, 4))), "scale has 4 blocks on axis 2; they must divide 6"),
        (lambda: tensorrt.dequantize(Q8, np.ones((4, 6))), "scale has rank 2; legal: 0, 1 and 3, the input's rank"),
        (
            lambda: tensorrt.quantize(np.ones((2, 32)), np.ones((2, 1)), "fp4"),
            "block size is 32; float4e2m1 has blocks of 16",
        ),
        (lambda: tensorrt.dequantize(np.zeros(2, np.int16), 1.0), "input has type int16; legal: int8, int4"),
        (lambda: tensorrt.quantize(X, np.ones((), ml_dtypes.float8_e8m0fnu), "int8"), "scale has type float8_e8m0fnu"),
    ],
)
def test_illegal_calls_name_argument_value_and_legal_values(call, message):
    with pytest.raises(ArgumentError, match=message):
        call()
