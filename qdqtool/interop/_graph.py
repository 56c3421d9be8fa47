"""A quantize or dequantize call of any system: run it on arrays, or get it as a piece of an ONNX graph."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, helper

from qdqtool.models.graph.io.tensors import make_tensor
from qdqtool.numerics import affine
from qdqtool.numerics.dtypes import FLOAT32, Array
from qdqtool.numerics.granularity import Blocked, Granularity, PerAxis, PerTensor, normalize_axis
from qdqtool.numerics.number_format import NumberFormat

IR_VERSIONS = ((10, 3), (13, 7), (19, 9), (21, 10), (23, 11), (24, 12), (25, 13), (28, 14))
"""Pairs of an opset and the IR version that this opset and later opsets need."""


@dataclass(frozen=True, slots=True, eq=False)
class ChainNode:
    """One node of a chain: it reads the output of the previous node, and constants.

    Attributes:
        op_type: Operator of the default domain.
        constants: Names of the inputs after the first.
        attributes: Keyword arguments for ``onnx.helper.make_node``.
    """

    op_type: str
    constants: tuple[str, ...] = ()
    attributes: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, eq=False)
class GraphPiece:
    """A chain of nodes that computes the same as one call of another system.

    Attributes:
        parts: The nodes in order.
        constants: The constants of the nodes by name.
        input_type: ``TensorProto.DataType`` of the input of the chain.
        output_type: ``TensorProto.DataType`` of the output of the chain.
        opset: The lowest opset that has every operator and type of the chain.
        doc: The formula in words, if the documents of the other system disagree; also the doc string of the first node.
    """

    parts: tuple[ChainNode, ...]
    constants: Mapping[str, Array]
    input_type: int
    output_type: int
    opset: int
    doc: str = ""

    def nodes(self, source: str, target: str, prefix: str = "") -> list[onnx.NodeProto]:
        """Return the nodes from tensor ``source`` to tensor ``target``; every new name begins with ``prefix``."""
        names = [source, *(f"{prefix}step_{index}" for index in range(1, len(self.parts))), target]
        return [
            helper.make_node(
                part.op_type,
                [names[index], *(prefix + name for name in part.constants)],
                [names[index + 1]],
                name=f"{prefix}{part.op_type}_{index}",
                doc_string=None if index else self.doc or None,
                **part.attributes,
            )
            for index, part in enumerate(self.parts)
        ]

    def initializers(self, prefix: str = "") -> list[TensorProto]:
        """Return the constants as packed tensors; every name begins with ``prefix``."""
        return [make_tensor(prefix + name, array, tensor_type(array.dtype)) for name, array in self.constants.items()]

    def model(self, shape: tuple[int, ...], opset: int | None = None) -> onnx.ModelProto:
        """Return a model with only this piece, from input ``x`` to output ``y``.

        Args:
            shape: Shape of the input and of the output.
            opset: Opset to declare; by default the lowest possible opset.
        """
        graph = helper.make_graph(
            self.nodes("x", "y"),
            "piece",
            [helper.make_tensor_value_info("x", self.input_type, shape)],
            [helper.make_tensor_value_info("y", self.output_type, shape)],
            self.initializers(),
        )
        version = opset or self.opset
        ir_version = max(ir for first, ir in IR_VERSIONS if first <= version)
        return helper.make_model(
            graph, opset_imports=[helper.make_opsetid("", version)], ir_version=ir_version, producer_name="qdqtool"
        )


def tensor_type(dtype: np.dtype[Any]) -> int:
    """Return the ``TensorProto.DataType`` of a NumPy or ml_dtypes type."""
    return int(helper.np_dtype_to_tensor_dtype(np.dtype(dtype)))


@dataclass(frozen=True, slots=True, eq=False)
class Quantize:
    """A call that computes ``saturate(round(x / scale) + zero_point)`` with ``granularity``."""

    x: Array
    scale: Array
    fmt: NumberFormat
    granularity: Granularity
    zero_point: Array | None = None

    def run(self) -> Array:
        """Return the codes."""
        return affine.quantize(self.x, self.scale, self.fmt, self.granularity, self.zero_point)

    def graph(self) -> GraphPiece:
        """Return a QuantizeLinear. It always has a zero point, which defines the output type in every opset."""
        zero = np.zeros(self.scale.shape, self.fmt.dtype) if self.zero_point is None else self.zero_point
        part = ChainNode("QuantizeLinear", ("scale", "zero_point"), attributes(self.granularity, self.x.ndim))
        constants = {"scale": self.scale, "zero_point": zero.astype(self.fmt.dtype)}
        opset = max(first_opset(self.granularity, self.scale), self.fmt.first_opset.quantize or 0)
        if self.x.dtype != self.scale.dtype:
            opset = max(opset, 23)
        return GraphPiece((part,), constants, tensor_type(self.x.dtype), tensor_type(self.fmt.dtype), opset)


@dataclass(frozen=True, slots=True, eq=False)
class Dequantize:
    """A call that computes ``(q - zero_point) * scale`` with ``granularity``, rounded once to ``output``."""

    q: Array
    scale: Array
    granularity: Granularity
    output: np.dtype[Any]
    fmt: NumberFormat
    zero_point: Array | None = None

    def run(self) -> Array:
        """Return the real values."""
        return affine.dequantize(self.q, self.scale, self.granularity, self.zero_point, output_dtype=self.output)

    def graph(self) -> GraphPiece:
        """Return a DequantizeLinear, with a Cast or ``output_dtype`` if the output type is not the scale's type.

        With a float32 scale, a Cast follows: the product is rounded to float32 first anyway, and TensorRT for RTX does
        not build every DequantizeLinear with another ``output_dtype``. Other scale types use ``output_dtype``.
        """
        constants = {"scale": self.scale}
        if self.zero_point is not None:
            constants["zero_point"] = self.zero_point
        found = attributes(self.granularity, self.q.ndim)
        opset = max(first_opset(self.granularity, self.scale), self.fmt.first_opset.dequantize or 0)
        made = tensor_type(self.output)
        casts: tuple[ChainNode, ...] = ()
        if self.output != self.scale.dtype and self.scale.dtype == FLOAT32:
            casts = (ChainNode("Cast", (), {"to": made}),)
        elif self.output != self.scale.dtype:
            found, opset = {**found, "output_dtype": made}, max(opset, 23)
        parts = (ChainNode("DequantizeLinear", tuple(constants), found), *casts)
        return GraphPiece(parts, constants, self.fmt.onnx_type, made, opset)


def attributes(granularity: Granularity, rank: int) -> dict[str, int]:
    """Return the attributes of an ONNX node for a granularity, with a non-negative axis."""
    match granularity:
        case PerTensor():
            return {}
        case PerAxis(axis):
            return {"axis": normalize_axis(axis, rank)}
        case Blocked(axis, block_size):
            return {"axis": normalize_axis(axis, rank), "block_size": block_size}


def first_opset(granularity: Granularity, scale: Array) -> int:
    """Return the first opset that allows a granularity and a scale type."""
    by_granularity = 21 if isinstance(granularity, Blocked) else 13
    return max(by_granularity, 13 if scale.dtype == np.float32 else 19)
