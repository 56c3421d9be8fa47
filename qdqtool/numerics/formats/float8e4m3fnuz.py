"""8-bit floats with 4 exponent and 3 mantissa bits, one zero and one NaN: the fp8 of AMD and Graphcore."""

import ml_dtypes
import numpy as np

from qdqtool.numerics.number_format import FirstOpset, NumberFormat

FORMAT = NumberFormat(
    name="float8e4m3fnuz",
    onnx_type=18,
    dtype=np.dtype(ml_dtypes.float8_e4m3fnuz),
    kind="float",
    bits=8,
    low=-240,
    high=240,
    first_opset=FirstOpset(quantize=19, dequantize=19),
    zero_point="zero",
    overflow="nan",
)
