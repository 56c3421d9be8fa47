"""6-bit floats with 3 exponent and 2 mantissa bits, four in three bytes: the wider values of MXFP6."""

import ml_dtypes
import numpy as np

from qdqtool.numerics.number_format import FirstOpset, NumberFormat

FORMAT = NumberFormat(
    name="float6e3m2",
    onnx_type=28,
    dtype=np.dtype(ml_dtypes.float6_e3m2fn),
    kind="float",
    bits=6,
    low=-28,
    high=28,
    first_opset=FirstOpset(quantize=28, dequantize=28),
    zero_point="zero",
)
