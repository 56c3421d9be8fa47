"""The worked examples of tripy's two pages, its checks, and those that its compiler makes later."""

import ml_dtypes
import numpy as np
import pytest

from qdqtool.errors import ArgumentError
from qdqtool.interop import tripy

INT4, E4M3, BF16 = ml_dtypes.int4, ml_dtypes.float8_e4m3fn, ml_dtypes.bfloat16
ROW = np.float32([[0, 1, 2], [3, 4, 5]])
Q8 = np.int8([[1, 2, 3], [4, 5, 6]])


def test_dequantize_per_tensor():
    output = tripy.dequantize(np.int8([1, 2, 3]), 0.99872, "float32")
    assert [f"{value:.4f}" for value in output] == ["0.9987", "1.9974", "2.9962"]


def test_dequantize_per_channel():
    output = tripy.dequantize(Q8, [0.99872, 0.96125], "float32", dim=0)
    shown = [[f"{value:.4f}" for value in row] for row in output]
    assert shown == [["0.9987", "1.9974", "2.9962"], ["3.8450", "4.8063", "5.7675"]]


def test_block_wise_there_and_back():
    quant = tripy.quantize(np.float32([[0, 1], [2, 3]]), [[1.0, 1.0]], "int4")
    assert quant.dtype == INT4
    np.testing.assert_array_equal(tripy.dequantize(quant, [[1.0, 1.0]], "float32"), [[0, 1], [2, 3]])


def test_quantize_per_tensor():
    np.testing.assert_array_equal(tripy.quantize(ROW, 0.99872, "int8"), [[0, 1, 2], [3, 4, 5]])


def test_quantize_per_channel():
    output = tripy.quantize(ROW, [0.99872, 0.96125], "int8", dim=0)
    np.testing.assert_array_equal(output, [[0, 1, 2], [3, 4, 5]])


def test_two_blocks_divide_the_first_dimension():
    x = np.arange(8, dtype=np.float32).reshape(4, 2)
    np.testing.assert_array_equal(tripy.quantize(x, [[1, 1], [2, 2]], "int4"), [[0, 1], [2, 3], [2, 2], [3, 4]])


def test_numbers_take_the_type_of_the_real_side():
    assert tripy.dequantize(Q8, 0.1, "float16").dtype == np.float16
    assert tripy.quantize(ROW.astype(BF16), 0.5, "float8").dtype == E4M3
    assert tripy.dequantize(Q8, np.float16([0.1, 0.2]), np.float16, dim=0).dtype == np.float16


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: tripy.quantize(ROW, [1.0], "int8"), "scale has rank 1; without dim it must be a scalar"),
        (lambda: tripy.quantize(ROW, 1.0, "int8", dim=0), "scale has rank 0; with dim it must have rank 1"),
        (
            lambda: tripy.quantize(ROW, [1.0, 1.0], "int8", dim=1),
            "scale has 2 elements; dimension 1 of the input has 3",
        ),
        (lambda: tripy.quantize(ROW, [1.0, 1.0], "int8", dim=2), "axis is 2; a tensor of rank 2 has axes -2 to 1"),
        (lambda: tripy.quantize(ROW, [[1.0] * 3], "int8"), "dtype is int8; a 2-D scale .* int4 only"),
        (lambda: tripy.quantize(ROW[None], [[1.0] * 3], "int4"), "input has rank 3; a 2-D scale .* rank 2 only"),
        (lambda: tripy.quantize(ROW, [[1.0] * 2], "int4"), r"scale has shape \[1, 2\]; its second dimension must be 3"),
        (lambda: tripy.quantize(ROW, [[1.0] * 3] * 3, "int4"), r"its first dimension must divide 2"),
        (lambda: tripy.quantize(np.int32([1]), 1.0, "int8"), "input has type int32; legal: float32, float16, bfloat16"),
        (lambda: tripy.quantize(np.bool_([True]), 1.0, "int8"), "input has type bool; legal"),
        (lambda: tripy.quantize_graph(np.int8([1]), 1.0, "int8"), "input has type int8; legal"),
        (lambda: tripy.quantize(ROW, 1.0, "uint8"), "dtype is uint8; legal: int8, int4, float8"),
        (lambda: tripy.quantize(ROW, np.float16(1), "int8"), "scale has type float16, not .* float32"),
        (lambda: tripy.quantize(ROW, 0.0, "int8"), "scale is 0; every scale must be finite and greater than 0"),
        (lambda: tripy.dequantize(ROW, 1.0, "float32"), "input has type float32; legal: int8, int4, float8e4m3fn"),
        (lambda: tripy.dequantize(Q8, 1.0, "float64"), "dtype is float64; legal: float32, float16, bfloat16"),
    ],
)
def test_illegal_calls_name_argument_value_and_legal_values(call, message):
    with pytest.raises(ArgumentError, match=message):
        call()
