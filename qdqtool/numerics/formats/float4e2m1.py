"""4-bit floats with 2 exponent bits and 1 mantissa bit, two in a byte: the values of NVFP4 and MXFP4."""

import ml_dtypes

from qdqtool.numerics.number_format import FirstOpset, floating

FORMAT = floating("float4e2m1", 23, ml_dtypes.float4_e2m1fn, FirstOpset(quantize=23, dequantize=23))
