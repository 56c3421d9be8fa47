"""The type of stored scales: that of the tensor, with the values of float16 where nodes become float16."""

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from onnx import TensorProto

from qdqtool.numerics import formats
from qdqtool.numerics.granularity import PerTensor
from qdqtool.numerics.scheme import QuantParams, QuantScheme
from qdqtool.quantization.planning.high_precision import as_stored, round_given, rule_for
from qdqtool.quantization.planning.options import HighPrecision

FP16, FP32 = HighPrecision.FP16, HighPrecision.FP32
F16, F32, BF16 = (np.dtype(each) for each in (np.float16, np.float32, ml_dtypes.bfloat16))
INT8 = QuantScheme(formats.get("int8"), PerTensor())


@pytest.mark.parametrize(
    ("elem_type", "of_fp32", "of_fp16", "of_bf16"),
    [
        (TensorProto.FLOAT, F32, F16, BF16),
        (TensorProto.FLOAT16, F16, F16, F16),
        (TensorProto.BFLOAT16, BF16, BF16, BF16),
    ],
)
def test_scales_are_derived_in_the_type_that_will_be_written(elem_type, of_fp32, of_fp16, of_bf16):
    rules = [rule_for(elem_type, high_precision) for high_precision in (FP32, FP16, HighPrecision.BF16)]
    assert [rule.dtype for rule in rules] == [of_fp32, of_fp16, of_bf16]
    assert all(rule.narrow_range and not rule.either_sign for rule in rules)


@pytest.mark.parametrize(
    ("given", "elem_type", "dtype"),
    [
        (F16, TensorProto.FLOAT, F32),
        (BF16, TensorProto.FLOAT, F32),
        (F16, TensorProto.FLOAT16, F16),
        (F32, TensorProto.FLOAT, F32),
        (F32, TensorProto.FLOAT16, F32),
    ],
)
def test_only_scales_in_half_precision_are_widened_to_the_type_of_the_tensor(given, elem_type, dtype):
    scale = np.array(0.1, given)
    found = as_stored(QuantParams(INT8, scale), elem_type)
    assert found.scale.dtype == dtype
    assert float(found.scale) == float(scale)


@given(st.floats(2.0**-14, 60000.0, width=32))
def test_given_scales_take_values_of_float16_where_nodes_become_float16(scale):
    given_scale = np.array([scale], np.float32)
    half = round_given(given_scale, F32, FP16)
    assert half.dtype == F32
    assert half.tolist() == given_scale.astype(np.float16).astype(np.float32).tolist()
    assert round_given(given_scale, F32, FP32).tolist() == [scale]
    assert round_given(given_scale, F16, FP16).dtype == F16


def test_tensors_of_bfloat16_stay_what_they_are():
    small = np.array([1e-20, 0.1, 1e20], np.float32)
    assert round_given(small, BF16, FP16).tolist() == small.astype(ml_dtypes.bfloat16).tolist()
