"""Short names of the array types, and the types that values and scales may have."""

from typing import Any

import ml_dtypes
import numpy as np
import numpy.typing as npt

Array = npt.NDArray[Any]

FLOAT16 = np.dtype(np.float16)
BFLOAT16 = np.dtype(ml_dtypes.bfloat16)
FLOAT32 = np.dtype(np.float32)
FLOAT64 = np.dtype(np.float64)
FLOAT8E8M0 = np.dtype(ml_dtypes.float8_e8m0fnu)

REAL_TYPES: tuple[np.dtype[Any], ...] = (FLOAT32, FLOAT16, BFLOAT16)
"""Types of values that ONNX quantizes, types that it dequantizes to, and types of its division."""

SCALE_TYPES: tuple[np.dtype[Any], ...] = (*REAL_TYPES, FLOAT8E8M0)
