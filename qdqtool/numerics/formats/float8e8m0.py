"""Powers of two in 8 bits, without sign, zero or infinity: the block scales of the OCP MX formats."""

import ml_dtypes
import numpy as np

from qdqtool.numerics.number_format import FirstOpset, NumberFormat

FORMAT = NumberFormat(
    name="float8e8m0",
    onnx_type=24,
    dtype=np.dtype(ml_dtypes.float8_e8m0fnu),
    kind="float",
    bits=8,
    low=2.0**-127,
    high=2.0**127,
    first_opset=FirstOpset(scale=24),
    zero_point="zero",
    overflow="nan",
)
