"""The worked example of pypto's page, its two reversals, and its limits."""

import numpy as np
import pytest

from qdqtool.errors import ArgumentError
from qdqtool.interop import onnx, pypto

X = np.int8([[1, 2, 3, 4]] * 3)
ONES, TWOS = np.ones(3, np.float32), np.full(3, -2, np.float32)


@pytest.mark.parametrize("shape", [(3,), (3, 1)])
def test_the_example_of_the_page(shape):
    scale, zero = ONES.reshape(shape), TWOS.reshape(shape)
    np.testing.assert_array_equal(pypto.dequantize(X, scale, "float32", -1), X)
    output = pypto.dequantize(X, scale, "float32", -1, zero)
    np.testing.assert_array_equal(output, [[-1, 0, 1, 2]] * 3)
    assert output.dtype == np.float32


def test_the_other_sign_is_an_option():
    output = pypto.dequantize(X, ONES, "float32", -1, TWOS, zero_point_sign="subtract")
    np.testing.assert_array_equal(output, [[3, 4, 5, 6]] * 3)


def test_axis_is_the_collapsed_dimension():
    """axis=-1 gives each row its scale, which ONNX calls axis 0; axis=-2 gives each column its scale, ONNX axis 1."""
    rows, columns = np.float32([1, 10, 100]), np.float32([1, 2, 3, 4])
    np.testing.assert_array_equal(pypto.dequantize(X, rows, "float32", -1), onnx.dequantize_linear(X, rows, axis=0))
    np.testing.assert_array_equal(
        pypto.dequantize(X, columns, "float32", -2), onnx.dequantize_linear(X, columns, axis=1)
    )
    np.testing.assert_array_equal(pypto.dequantize(X, rows, "float32", 1), X * rows[:, None])
    np.testing.assert_array_equal(pypto.dequantize(X, columns, "float32", 0), X * columns)


def test_rank_four_with_a_fractional_zero_point():
    rng = np.random.default_rng(0)
    q = rng.integers(-(2**15), 2**15, (2, 3, 4, 5)).astype(np.int16)
    scale, zero = rng.uniform(0.1, 1, (2, 3, 5)).astype(np.float32), rng.normal(size=(2, 3, 5)).astype(np.float32)
    expected = (q.astype(np.float32) + zero[:, :, None]) * scale[:, :, None]
    np.testing.assert_array_equal(pypto.dequantize(q, scale, "float32", -2, zero), expected)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: pypto.dequantize(X[0], 1.0, "float32", -1), "input has rank 1; legal: 2 to 4"),
        (lambda: pypto.dequantize(X[:0], ONES[:0], "float32", -1), "input has 0 elements; legal: 1 to 2147483647"),
        (lambda: pypto.dequantize(X.astype(np.uint8), ONES, "float32", -1), "input has type uint8; legal: int8, int16"),
        (lambda: pypto.dequantize(X, ONES, "float16", -1), "otype is float16; legal: float32"),
        (lambda: pypto.dequantize(X, ONES, "float32", 2), "axis is 2; legal for rank 2: -1, -2, 1, 0"),
        (lambda: pypto.dequantize(X, ONES, "float32", -2), r"scale has shape \[3\]; legal: \[4\], \[1, 4\]"),
        (
            lambda: pypto.dequantize(X, ONES, "float32", -1, TWOS[:2]),
            r"zero_points has shape \[2\]; legal: \[3\], \[3, 1\]",
        ),
        (lambda: pypto.dequantize(X, ONES.astype(np.float16), "float32", -1), "scale has type float16"),
        (lambda: pypto.dequantize(X, ONES, "float32", -1, TWOS, zero_point_sign="plus"), "legal: add, subtract"),
        (lambda: pypto.dequantize(X, ONES, "float32", -1, TWOS * np.nan), "every zero point must be finite"),
    ],
)
def test_illegal_calls_name_argument_value_and_legal_values(call, message):
    with pytest.raises(ArgumentError, match=message):
        call()
