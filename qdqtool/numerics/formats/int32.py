"""Signed 32-bit integers: stored biases, which DequantizeLinear reads; nothing is quantized to them."""

import numpy as np

from qdqtool.numerics.number_format import FirstOpset, NumberFormat

FORMAT = NumberFormat(
    name="int32",
    onnx_type=6,
    dtype=np.dtype(np.int32),
    kind="integer",
    bits=32,
    low=-(2**31),
    high=2**31 - 1,
    first_opset=FirstOpset(dequantize=10),
    zero_point="zero",
)
