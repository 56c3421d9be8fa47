"""Signed 16-bit integers: activations that need more steps than int8 has; no TensorRT kernel takes them."""

import numpy as np

from qdqtool.numerics.number_format import FirstOpset, integer

FORMAT = integer("int16", 5, np.int16, FirstOpset(quantize=21, dequantize=21))
