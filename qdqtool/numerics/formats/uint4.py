"""Unsigned 4-bit integers, two in a byte: weight-only quantization with a zero point."""

import ml_dtypes
import numpy as np

from qdqtool.numerics.number_format import FirstOpset, NumberFormat

FORMAT = NumberFormat(
    name="uint4",
    onnx_type=21,
    dtype=np.dtype(ml_dtypes.uint4),
    kind="integer",
    bits=4,
    low=0,
    high=15,
    first_opset=FirstOpset(quantize=21, dequantize=21),
)
