"""The limits of the 16-bit floats are those that the packages state that define their arithmetic."""

import ml_dtypes
import numpy as np
import onnx
import pytest

from qdqtool.models.options import HalfType


@pytest.mark.parametrize("half", HalfType)
def test_the_limits_are_those_of_the_format(half: HalfType) -> None:
    dtype = onnx.helper.tensor_dtype_to_np_dtype(half.elem_type)
    limits = ml_dtypes.finfo(dtype)
    assert dtype.name == half.onnx_name
    assert (float(limits.max), float(limits.smallest_normal)) == (half.finite, half.normal)
    assert (float(limits.smallest_subnormal), 4 * half.largest) == (half.tiniest, half.finite)


@pytest.mark.parametrize("half", HalfType)
def test_the_first_integer_that_is_lost_follows_the_limit(half: HalfType) -> None:
    numbers = np.arange(half.integers + 2, dtype=np.float32)
    kept = numbers.astype(onnx.helper.tensor_dtype_to_np_dtype(half.elem_type)).astype(np.float32) == numbers
    assert list(np.flatnonzero(~kept)) == [half.integers + 1]
