"""Signed 32-bit integers: stored biases, which DequantizeLinear reads; nothing is quantized to them."""

import numpy as np

from qdqtool.numerics.number_format import FirstOpset, integer

FORMAT = integer("int32", 6, np.int32, FirstOpset(dequantize=10), zero_point="zero")
