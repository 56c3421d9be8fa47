"""Powers of two in 8 bits, without sign, zero or infinity: the block scales of the OCP MX formats."""

import ml_dtypes

from qdqtool.numerics.number_format import FirstOpset, floating

FORMAT = floating("float8e8m0", 24, ml_dtypes.float8_e8m0fnu, FirstOpset(scale=24))
