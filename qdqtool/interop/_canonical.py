"""What calls of other systems come down to: a canonical quantize or dequantize, to be run or put in a graph."""

from dataclasses import dataclass
from typing import Any

import numpy as np

from qdqtool.interop._graph import GraphPiece, Part, tensor_type
from qdqtool.numerics import affine
from qdqtool.numerics.dtypes import FLOAT32, Array
from qdqtool.numerics.granularity import Blocked, Granularity, PerAxis, PerTensor, normalize_axis
from qdqtool.numerics.number_format import NumberFormat


@dataclass(frozen=True, slots=True, eq=False)
class Quantize:
    """``saturate(round(x / scale) + zero_point)`` over ``granularity``."""

    x: Array
    scale: Array
    fmt: NumberFormat
    granularity: Granularity
    zero_point: Array | None = None

    def run(self) -> Array:
        """The codes."""
        return affine.quantize(self.x, self.scale, self.fmt, self.granularity, self.zero_point)

    def graph(self) -> GraphPiece:
        """A QuantizeLinear; a zero point is always written, since it is what carries the type at every opset."""
        zero = np.zeros(self.scale.shape, self.fmt.dtype) if self.zero_point is None else self.zero_point
        part = Part("QuantizeLinear", ("scale", "zero_point"), attributes(self.granularity, self.x.ndim))
        constants = {"scale": self.scale, "zero_point": zero.astype(self.fmt.dtype)}
        opset = max(first_opset(self.granularity, self.scale), self.fmt.first_opset.quantize or 0)
        if self.x.dtype != self.scale.dtype:
            opset = max(opset, 23)
        return GraphPiece((part,), constants, tensor_type(self.x.dtype), tensor_type(self.fmt.dtype), opset)


@dataclass(frozen=True, slots=True, eq=False)
class Dequantize:
    """``(q - zero_point) * scale`` over ``granularity``, rounded once to ``output``."""

    q: Array
    scale: Array
    granularity: Granularity
    output: np.dtype[Any]
    fmt: NumberFormat
    zero_point: Array | None = None

    def run(self) -> Array:
        """The real values."""
        return affine.dequantize(self.q, self.scale, self.granularity, self.zero_point, output_dtype=self.output)

    def graph(self) -> GraphPiece:
        """A DequantizeLinear, and what it takes to make another type than the scale's.

        Behind a float32 scale a Cast does: the product is rounded to float32 first anyway, and TensorRT for RTX does
        not build every DequantizeLinear that names another type. Else it is ``output_dtype``.
        """
        constants = {"scale": self.scale}
        if self.zero_point is not None:
            constants["zero_point"] = self.zero_point
        found = attributes(self.granularity, self.q.ndim)
        opset = max(first_opset(self.granularity, self.scale), self.fmt.first_opset.dequantize or 0)
        made = tensor_type(self.output)
        casts: tuple[Part, ...] = ()
        if self.output != self.scale.dtype and self.scale.dtype == FLOAT32:
            casts = (Part("Cast", (), {"to": made}),)
        elif self.output != self.scale.dtype:
            found, opset = {**found, "output_dtype": made}, max(opset, 23)
        parts = (Part("DequantizeLinear", tuple(constants), found), *casts)
        return GraphPiece(parts, constants, self.fmt.onnx_type, made, opset)


def attributes(granularity: Granularity, rank: int) -> dict[str, int]:
    """The attributes that say a granularity in ONNX, with a non-negative axis."""
    match granularity:
        case PerTensor():
            return {}
        case PerAxis(axis):
            return {"axis": normalize_axis(axis, rank)}
        case Blocked(axis, block_size):
            return {"axis": normalize_axis(axis, rank), "block_size": block_size}


def first_opset(granularity: Granularity, scale: Array) -> int:
    """The first opset that knows a granularity and a scale type."""
    by_granularity = 21 if isinstance(granularity, Blocked) else 13
    return max(by_granularity, 13 if scale.dtype == np.float32 else 19)
