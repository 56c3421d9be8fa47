"""The NumPy types of the inputs and outputs of engines, by the names that TensorRT and ONNX Runtime give them."""

from collections.abc import Mapping

import ml_dtypes
import numpy as np

from qdqtool.errors import CapabilityError
from qdqtool.numerics.dtypes import BFLOAT16, FLOAT16, FLOAT32, FLOAT64

Type = np.dtype[np.generic]

# Types of 4 bits are left out, since two elements share a byte, and scales of MXFP8 (E8M0), of which TensorRT does not
# tell the size. No model that ONNX Runtime runs has such an input.
_TENSORRT: Mapping[str, Type] = {
    "FLOAT": FLOAT32,
    "HALF": FLOAT16,
    "BF16": BFLOAT16,
    "INT8": np.dtype(np.int8),
    "INT32": np.dtype(np.int32),
    "INT64": np.dtype(np.int64),
    "BOOL": np.dtype(np.bool_),
    "UINT8": np.dtype(np.uint8),
    "FP8": np.dtype(ml_dtypes.float8_e4m3fn),
}

_ONNX: Mapping[str, Type] = {
    "tensor(float)": FLOAT32,
    "tensor(float16)": FLOAT16,
    "tensor(double)": FLOAT64,
    "tensor(bool)": np.dtype(np.bool_),
    **{f"tensor({name})": np.dtype(name) for name in ("int8", "int16", "int32", "int64")},
    **{f"tensor(u{name})": np.dtype(f"u{name}") for name in ("int8", "int16", "int32", "int64")},
}


def of_tensorrt(name: str, tensor: str) -> Type:
    """Return the NumPy type of a member of TensorRT's ``DataType``.

    Args:
        name: The member, such as ``HALF``.
        tensor: The input or output, for the message.

    Raises:
        CapabilityError: NumPy has no array of that type.
    """
    return _found(_TENSORRT, name, tensor)


def of_onnx(name: str, tensor: str) -> Type:
    """Return the NumPy type of what ONNX Runtime calls ``tensor(float16)``; arguments and errors as above."""
    return _found(_ONNX, name, tensor)


def fed_as(dtype: Type) -> Type:
    """Return the type in which samples hold values of ``dtype``: float32 for bfloat16, as everywhere in qdqtool."""
    return FLOAT32 if dtype == BFLOAT16 else dtype


def _found(types: Mapping[str, Type], name: str, tensor: str) -> Type:
    if name not in types:
        raise CapabilityError(f"'{tensor}' has type {name}, which NumPy has no arrays of")
    return types[name]
