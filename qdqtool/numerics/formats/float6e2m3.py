"""6-bit floats with 2 exponent and 3 mantissa bits, four in three bytes: the finer values of MXFP6."""

import ml_dtypes
import numpy as np

from qdqtool.numerics.number_format import FirstOpset, NumberFormat

FORMAT = NumberFormat(
    name="float6e2m3",
    onnx_type=27,
    dtype=np.dtype(ml_dtypes.float6_e2m3fn),
    kind="float",
    bits=6,
    low=-7.5,
    high=7.5,
    first_opset=FirstOpset(quantize=28, dequantize=28),
    zero_point="zero",
)
