"""6-bit floats with 3 exponent and 2 mantissa bits: the MXFP6 format with the wider range. Three bytes hold four."""

import ml_dtypes

from qdqtool.numerics.number_format import FirstOpset, floating

FORMAT = floating("float6e3m2", 28, ml_dtypes.float6_e3m2fn, FirstOpset(quantize=28, dequantize=28))
