"""8-bit floats with 5 exponent and 2 mantissa bits, one zero and one NaN."""

import ml_dtypes
import numpy as np

from qdqtool.numerics.number_format import FirstOpset, NumberFormat

FORMAT = NumberFormat(
    name="float8e5m2fnuz",
    onnx_type=20,
    dtype=np.dtype(ml_dtypes.float8_e5m2fnuz),
    kind="float",
    bits=8,
    low=-57344,
    high=57344,
    first_opset=FirstOpset(quantize=19, dequantize=19),
    zero_point="zero",
    overflow="nan",
)
