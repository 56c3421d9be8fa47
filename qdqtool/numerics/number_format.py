"""The class of number formats; the formats are in :mod:`qdqtool.numerics.formats`, one per module."""

import math
from dataclasses import dataclass
from typing import Any, Literal

import ml_dtypes
import numpy as np

Overflow = Literal["saturates", "nan", "infinity"]


@dataclass(frozen=True, slots=True)
class FirstOpset:
    """The first ONNX opset that allows a format, for each use; None if no opset allows it.

    Attributes:
        quantize: First opset for outputs of QuantizeLinear.
        dequantize: First opset for inputs of DequantizeLinear.
        scale: First opset for scales.
    """

    quantize: int | None = None
    dequantize: int | None = None
    scale: int | None = None


@dataclass(frozen=True, slots=True)
class NumberFormat:
    """A number format of codes or scales. Its name is the name of the ONNX TensorProto data type, in lower case.

    Attributes:
        name: Public id, the file name of its module: ``int8``, ``float8e4m3fn``.
        onnx_type: Value of ``TensorProto.DataType``.
        dtype: NumPy or ml_dtypes type of unpacked arrays.
        kind: Whether the values are integers or floating-point numbers.
        bits: Stored bits per element. Elements below 8 bits share bytes, the first element in the low bits.
        low: Smallest finite value.
        high: Largest finite value.
        first_opset: The first opsets in which ONNX allows the format.
        zero_point: ``any`` integer inside the range, or only ``zero``.
        overflow: Result for values beyond the range if saturation is off; ``saturates`` for formats without infinity
            and NaN.
    """

    name: str
    onnx_type: int
    dtype: np.dtype[np.generic]
    kind: Literal["integer", "float"]
    bits: int
    low: float
    high: float
    first_opset: FirstOpset
    zero_point: Literal["any", "zero"] = "any"
    overflow: Overflow = "saturates"

    @property
    def max_exponent(self) -> int:
        """The exponent of :attr:`high`: the largest ``e`` with ``2**e <= high``; ``emax`` in the OCP MX text."""
        return math.frexp(self.high)[1] - 1

    @property
    def has_nan(self) -> bool:
        """Whether NaN has a code of its own."""
        return self.overflow != "saturates"

    def stored_bytes(self, elements: int) -> int:
        """Return the number of bytes of ``elements`` packed values in the raw data of a TensorProto."""
        return (elements * self.bits + 7) // 8

    def __str__(self) -> str:
        return self.name


def integer(
    name: str, onnx_type: int, scalar: type[Any], first_opset: FirstOpset, zero_point: Literal["any", "zero"] = "any"
) -> NumberFormat:
    """Return an integer format with the range of the array type ``scalar``."""
    info: Any = ml_dtypes.iinfo(scalar)  # type: ignore[no-untyped-call]
    return NumberFormat(
        name, onnx_type, np.dtype(scalar), "integer", info.bits, info.min, info.max, first_opset, zero_point
    )


def floating(name: str, onnx_type: int, scalar: type[Any], first_opset: FirstOpset) -> NumberFormat:
    """Return a floating-point format with the range and overflow of the array type ``scalar``, without zero point."""
    info: Any = ml_dtypes.finfo(scalar)  # type: ignore[no-untyped-call]
    values = np.arange(1 << info.bits, dtype=np.uint8).view(scalar).astype(np.float32)
    overflow: Overflow = "infinity" if np.isinf(values).any() else "nan" if np.isnan(values).any() else "saturates"
    low, high = float(info.min), float(info.max)
    return NumberFormat(name, onnx_type, np.dtype(scalar), "float", info.bits, low, high, first_opset, "zero", overflow)
