"""8-bit floats with 5 exponent and 2 mantissa bits, one zero and one NaN."""

import ml_dtypes

from qdqtool.numerics.number_format import FirstOpset, floating

FORMAT = floating("float8e5m2fnuz", 20, ml_dtypes.float8_e5m2fnuz, FirstOpset(quantize=19, dequantize=19))
