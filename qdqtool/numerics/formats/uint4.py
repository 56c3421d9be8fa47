"""Unsigned 4-bit integers, two in a byte: weight-only quantization with a zero point."""

import ml_dtypes

from qdqtool.numerics.number_format import FirstOpset, integer

FORMAT = integer("uint4", 21, ml_dtypes.uint4, FirstOpset(quantize=21, dequantize=21))
