"""A piece of an ONNX graph with one input and one output, to be put into a model or to become one."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, helper

from qdqtool.models.graph.io.tensors import make_tensor
from qdqtool.numerics.dtypes import Array

IR_VERSIONS = ((10, 3), (13, 7), (19, 9), (21, 10), (23, 11), (24, 12), (25, 13), (28, 14))
"""First opset and the IR version that goes with it."""


@dataclass(frozen=True, slots=True, eq=False)
class Part:
    """One node of a chain: it reads the output of the one before it, and ``constants`` by name.

    Attributes:
        op_type: Operator of the default domain.
        constants: Names of the inputs after the first.
        attributes: Values as ``onnx.helper.make_node`` takes them.
    """

    op_type: str
    constants: tuple[str, ...] = ()
    attributes: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, eq=False)
class GraphPiece:
    """A chain of nodes that means what one call of another system means.

    Attributes:
        parts: The nodes in order.
        constants: Their constants by name.
        input_type: ``TensorProto.DataType`` of what the chain reads.
        output_type: ``TensorProto.DataType`` of what it makes.
        opset: The lowest opset that has everything in it.
        doc: What it means, in words, where the system's own texts disagree; the first node carries it too.
    """

    parts: tuple[Part, ...]
    constants: Mapping[str, Array]
    input_type: int
    output_type: int
    opset: int
    doc: str = ""

    def nodes(self, source: str, target: str, prefix: str = "") -> list[onnx.NodeProto]:
        """The nodes between the tensors ``source`` and ``target``; ``prefix`` goes before every new name."""
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
        """The constants as packed tensors; ``prefix`` goes before every name."""
        return [make_tensor(prefix + name, array, tensor_type(array.dtype)) for name, array in self.constants.items()]

    def model(self, shape: tuple[int, ...], opset: int | None = None) -> onnx.ModelProto:
        """A model of just this piece, from input ``x`` of ``shape`` to output ``y``.

        Args:
            shape: Shape of the input, which the output shares.
            opset: Opset to declare; default the lowest that will do.
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
    """``TensorProto.DataType`` of a NumPy or ml_dtypes type."""
    return int(helper.np_dtype_to_tensor_dtype(np.dtype(dtype)))
