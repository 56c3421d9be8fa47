"""8-bit floats with 4 exponent and 3 mantissa bits, one zero and one NaN: the fp8 of AMD and Graphcore."""

import ml_dtypes

from qdqtool.numerics.number_format import FirstOpset, floating

FORMAT = floating("float8e4m3fnuz", 18, ml_dtypes.float8_e4m3fnuz, FirstOpset(quantize=19, dequantize=19))
