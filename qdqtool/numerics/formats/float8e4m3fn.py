"""8-bit floats with 4 exponent and 3 mantissa bits, finite and NaN only: the fp8 of NVIDIA's kernels."""

import ml_dtypes

from qdqtool.numerics.number_format import FirstOpset, floating

FORMAT = floating("float8e4m3fn", 17, ml_dtypes.float8_e4m3fn, FirstOpset(quantize=19, dequantize=19))
