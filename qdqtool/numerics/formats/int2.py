"""Signed 2-bit integers, four in a byte."""

import ml_dtypes
import numpy as np

from qdqtool.numerics.number_format import FirstOpset, NumberFormat

FORMAT = NumberFormat(
    name="int2",
    onnx_type=26,
    dtype=np.dtype(ml_dtypes.int2),
    kind="integer",
    bits=2,
    low=-2,
    high=1,
    first_opset=FirstOpset(quantize=25, dequantize=25),
)
