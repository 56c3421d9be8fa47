"""The type of stored scales, where the float32 nodes of the model will be converted to float16."""

import enum
from dataclasses import replace

import numpy as np
import onnx
from onnx import TensorProto

from qdqtool.numerics.derive import ScaleRule, round_scale
from qdqtool.numerics.dtypes import FLOAT16, FLOAT32, Array
from qdqtool.numerics.scheme import QuantParams


class HighPrecision(enum.Enum):
    """The type of the float nodes: ``fp32`` leaves them as they are, ``fp16`` is float16 where it holds the values."""

    FP32 = "fp32"
    FP16 = "fp16"


def rule_for(elem_type: int, high_precision: HighPrecision) -> ScaleRule:
    """Return how the scales of a tensor are derived.

    Args:
        elem_type: ``TensorProto.DataType`` of the tensor.
        high_precision: The type of float nodes in the written model.
    """
    will_be_half = high_precision is HighPrecision.FP16 and elem_type == TensorProto.FLOAT
    dtype = FLOAT16 if will_be_half else np.dtype(onnx.helper.tensor_dtype_to_np_dtype(elem_type))
    return ScaleRule(dtype=dtype, narrow_range=True)


def as_stored(params: QuantParams, elem_type: int) -> QuantParams:
    """Return the scales in the type of the tensor, which holds each of them exactly; float8 scales do not change."""
    dtype = np.dtype(onnx.helper.tensor_dtype_to_np_dtype(elem_type))
    # The pairs are inserted into the float32 model, and below opset 23 ONNX demands scales of the type of the data;
    # the conversion to float16 makes them float16 again, without a rounding.
    if params.scale.dtype != FLOAT16 or params.scale.dtype == dtype:
        return params
    return replace(params, scale=params.scale.astype(dtype))


def round_given(scale: Array, dtype: np.dtype[np.generic], high_precision: HighPrecision) -> Array:
    """Return given scales in the type of the tensor, rounded to the values that will be stored.

    Args:
        scale: Positive scales of any float type.
        dtype: Type of the tensor.
        high_precision: The type of float nodes in the written model.
    """
    if high_precision is HighPrecision.FP16 and dtype == FLOAT32:
        return round_scale(scale.astype(np.float64), FLOAT16).astype(dtype)
    return scale.astype(dtype)
