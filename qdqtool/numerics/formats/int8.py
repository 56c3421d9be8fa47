"""Signed 8-bit integers: the format of TensorRT's int8 kernels."""

import numpy as np

from qdqtool.numerics.number_format import FirstOpset, NumberFormat

FORMAT = NumberFormat(
    name="int8",
    onnx_type=3,
    dtype=np.dtype(np.int8),
    kind="integer",
    bits=8,
    low=-128,
    high=127,
    first_opset=FirstOpset(quantize=10, dequantize=10),
)
