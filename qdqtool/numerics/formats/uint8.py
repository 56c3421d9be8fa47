"""Unsigned 8-bit integers: ONNX's default output of QuantizeLinear; no TensorRT GPU kernel takes them."""

import numpy as np

from qdqtool.numerics.number_format import FirstOpset, integer

FORMAT = integer("uint8", 2, np.uint8, FirstOpset(quantize=10, dequantize=10))
