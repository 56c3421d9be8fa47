"""In which type scales are stored, when what is float32 now will be float16 in the model that is written."""

import enum
from dataclasses import replace

import numpy as np
import onnx
from onnx import TensorProto

from qdqtool.numerics.derive import ScaleRule, round_scale
from qdqtool.numerics.dtypes import FLOAT16, FLOAT32, Array
from qdqtool.numerics.scheme import QuantParams


class HighPrecision(enum.Enum):
    """The type of what stays float: ``fp32`` for as it is, ``fp16`` for float16 wherever it holds the values."""

    FP32 = "fp32"
    FP16 = "fp16"


def rule_for(elem_type: int, high_precision: HighPrecision) -> ScaleRule:
    """How the scales of a tensor are derived.

    Args:
        elem_type: ``TensorProto.DataType`` of the tensor.
        high_precision: What it will be once the model is written.
    """
    will_be_half = high_precision is HighPrecision.FP16 and elem_type == TensorProto.FLOAT
    dtype = FLOAT16 if will_be_half else np.dtype(onnx.helper.tensor_dtype_to_np_dtype(elem_type))
    return ScaleRule(dtype=dtype, narrow_range=True)


def as_stored(params: QuantParams, elem_type: int) -> QuantParams:
    """The same scales in the type of the tensor, which holds each of them exactly; float8 scales stay what they are."""
    dtype = np.dtype(onnx.helper.tensor_dtype_to_np_dtype(elem_type))
    if params.scale.dtype != FLOAT16 or params.scale.dtype == dtype:
        return params
    return replace(params, scale=params.scale.astype(dtype))


def round_given(scale: Array, dtype: np.dtype[np.generic], high_precision: HighPrecision) -> Array:
    """Scales that are given, in the type of the tensor, rounded to what will be stored.

    Args:
        scale: Positive scales of any float type.
        dtype: Type of the tensor.
        high_precision: What it will be once the model is written.
    """
    if high_precision is HighPrecision.FP16 and dtype == FLOAT32:
        return round_scale(scale.astype(np.float64), FLOAT16).astype(dtype)
    return scale.astype(dtype)
