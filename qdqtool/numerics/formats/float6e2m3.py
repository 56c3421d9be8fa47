"""6-bit floats with 2 exponent and 3 mantissa bits, four in three bytes: the finer values of MXFP6."""

import ml_dtypes

from qdqtool.numerics.number_format import FirstOpset, floating

FORMAT = floating("float6e2m3", 27, ml_dtypes.float6_e2m3fn, FirstOpset(quantize=28, dequantize=28))
