"""Unsigned 2-bit integers, four in a byte."""

import ml_dtypes

from qdqtool.numerics.number_format import FirstOpset, integer

FORMAT = integer("uint2", 25, ml_dtypes.uint2, FirstOpset(quantize=25, dequantize=25))
