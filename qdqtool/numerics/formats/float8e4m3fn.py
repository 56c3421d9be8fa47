"""8-bit floats with 4 exponent and 3 mantissa bits, finite and NaN only: the fp8 of NVIDIA's kernels."""

import ml_dtypes
import numpy as np

from qdqtool.numerics.number_format import FirstOpset, NumberFormat

FORMAT = NumberFormat(
    name="float8e4m3fn",
    onnx_type=17,
    dtype=np.dtype(ml_dtypes.float8_e4m3fn),
    kind="float",
    bits=8,
    low=-448,
    high=448,
    first_opset=FirstOpset(quantize=19, dequantize=19),
    zero_point="zero",
    overflow="nan",
)
