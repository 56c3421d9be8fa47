"""Unsigned 8-bit integers: ONNX's default output of QuantizeLinear; no TensorRT GPU kernel takes them."""

import numpy as np

from qdqtool.numerics.number_format import FirstOpset, NumberFormat

FORMAT = NumberFormat(
    name="uint8",
    onnx_type=2,
    dtype=np.dtype(np.uint8),
    kind="integer",
    bits=8,
    low=0,
    high=255,
    first_opset=FirstOpset(quantize=10, dequantize=10),
)
