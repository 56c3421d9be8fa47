"""8-bit floats with 5 exponent and 2 mantissa bits, infinities and NaNs: the upper half of a float16."""

import ml_dtypes

from qdqtool.numerics.number_format import FirstOpset, floating

FORMAT = floating("float8e5m2", 19, ml_dtypes.float8_e5m2, FirstOpset(quantize=19, dequantize=19))
