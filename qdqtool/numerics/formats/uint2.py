"""Unsigned 2-bit integers, four in a byte."""

import ml_dtypes
import numpy as np

from qdqtool.numerics.number_format import FirstOpset, NumberFormat

FORMAT = NumberFormat(
    name="uint2",
    onnx_type=25,
    dtype=np.dtype(ml_dtypes.uint2),
    kind="integer",
    bits=2,
    low=0,
    high=3,
    first_opset=FirstOpset(quantize=25, dequantize=25),
)
