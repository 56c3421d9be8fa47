"""Signed 4-bit integers, two in a byte: weight-only quantization, usually in blocks."""

import ml_dtypes
import numpy as np

from qdqtool.numerics.number_format import FirstOpset, NumberFormat

FORMAT = NumberFormat(
    name="int4",
    onnx_type=22,
    dtype=np.dtype(ml_dtypes.int4),
    kind="integer",
    bits=4,
    low=-8,
    high=7,
    first_opset=FirstOpset(quantize=21, dequantize=21),
)
