"""Signed 16-bit integers: activations that need more steps than int8 has; no TensorRT kernel takes them."""

import numpy as np

from qdqtool.numerics.number_format import FirstOpset, NumberFormat

FORMAT = NumberFormat(
    name="int16",
    onnx_type=5,
    dtype=np.dtype(np.int16),
    kind="integer",
    bits=16,
    low=-32768,
    high=32767,
    first_opset=FirstOpset(quantize=21, dequantize=21),
)
