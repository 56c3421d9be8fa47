"""Signed 4-bit integers, two in a byte: weight-only quantization, usually in blocks."""

import ml_dtypes

from qdqtool.numerics.number_format import FirstOpset, integer

FORMAT = integer("int4", 22, ml_dtypes.int4, FirstOpset(quantize=21, dequantize=21))
