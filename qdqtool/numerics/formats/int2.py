"""Signed 2-bit integers, four in a byte."""

import ml_dtypes

from qdqtool.numerics.number_format import FirstOpset, integer

FORMAT = integer("int2", 26, ml_dtypes.int2, FirstOpset(quantize=25, dequantize=25))
