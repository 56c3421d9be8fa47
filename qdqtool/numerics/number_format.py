"""The type of a number format; the formats themselves live one a module in :mod:`qdqtool.numerics.formats`."""

import math
from dataclasses import dataclass
from typing import Literal

import numpy as np


@dataclass(frozen=True, slots=True)
class FirstOpset:
    """The first ONNX opset in which a format may be used, per role; None where it never may.

    Attributes:
        quantize: As the output of QuantizeLinear.
        dequantize: As the input of DequantizeLinear.
        scale: As the type of a scale.
    """

    quantize: int | None = None
    dequantize: int | None = None
    scale: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class NumberFormat:
    """A quantized (or scale) number format, named as ONNX spells its TensorProto data type, in lower case.

    Attributes:
        name: Public id, the file name of its module: ``int8``, ``float8e4m3fn``.
        onnx_type: Value of ``TensorProto.DataType``.
        dtype: NumPy or ml_dtypes type of unpacked arrays.
        kind: Integer grid, or a floating-point grid.
        bits: Stored bits per element; below 8 two or more elements share a byte, the first in the low bits.
        low: Smallest finite value.
        high: Largest finite value.
        first_opset: Where ONNX allows it.
        zero_point: ``any`` integer inside the range, or only ``zero``.
        overflow: Result for values that round beyond the range when saturation is off; ``saturates`` for formats that
            have neither infinity nor NaN.
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
    overflow: Literal["saturates", "nan", "infinity"] = "saturates"

    @property
    def max_exponent(self) -> int:
        """The exponent of :attr:`high`: the largest ``e`` with ``2**e <= high``; ``emax`` in the OCP MX text."""
        return math.frexp(self.high)[1] - 1

    @property
    def has_nan(self) -> bool:
        """Whether NaN has a code of its own."""
        return self.overflow != "saturates"

    def stored_bytes(self, elements: int) -> int:
        """Return the bytes that ``elements`` packed values take in a TensorProto's raw data."""
        return (elements * self.bits + 7) // 8

    def __str__(self) -> str:
        return self.name
