"""Unsigned 16-bit integers: activations that need more steps than uint8 has; no TensorRT kernel takes them."""

import numpy as np

from qdqtool.numerics.number_format import FirstOpset, NumberFormat

FORMAT = NumberFormat(
    name="uint16",
    onnx_type=4,
    dtype=np.dtype(np.uint16),
    kind="integer",
    bits=16,
    low=0,
    high=65535,
    first_opset=FirstOpset(quantize=21, dequantize=21),
)
