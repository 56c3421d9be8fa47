"""4-bit floats with 2 exponent bits and 1 mantissa bit, two in a byte: the values of NVFP4 and MXFP4."""

import ml_dtypes
import numpy as np

from qdqtool.numerics.number_format import FirstOpset, NumberFormat

FORMAT = NumberFormat(
    name="float4e2m1",
    onnx_type=23,
    dtype=np.dtype(ml_dtypes.float4_e2m1fn),
    kind="float",
    bits=4,
    low=-6,
    high=6,
    first_opset=FirstOpset(quantize=23, dequantize=23),
    zero_point="zero",
)
