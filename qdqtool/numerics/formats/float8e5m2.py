"""8-bit floats with 5 exponent and 2 mantissa bits, infinities and NaNs: the upper half of a float16."""

import ml_dtypes
import numpy as np

from qdqtool.numerics.number_format import FirstOpset, NumberFormat

FORMAT = NumberFormat(
    name="float8e5m2",
    onnx_type=19,
    dtype=np.dtype(ml_dtypes.float8_e5m2),
    kind="float",
    bits=8,
    low=-57344,
    high=57344,
    first_opset=FirstOpset(quantize=19, dequantize=19),
    zero_point="zero",
    overflow="infinity",
)
