"""Signed 8-bit integers: the format of TensorRT's int8 kernels."""

import numpy as np

from qdqtool.numerics.number_format import FirstOpset, integer

FORMAT = integer("int8", 3, np.int8, FirstOpset(quantize=10, dequantize=10))
