"""Unsigned 16-bit integers: activations that need more steps than uint8 has; no TensorRT kernel takes them."""

import numpy as np

from qdqtool.numerics.number_format import FirstOpset, integer

FORMAT = integer("uint16", 4, np.uint16, FirstOpset(quantize=21, dequantize=21))
