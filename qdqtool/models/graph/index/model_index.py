"""The index of one model: its graph, tensor types, constants and Q/DQ nodes, each computed once."""

from dataclasses import dataclass
from functools import cached_property
from typing import Self

from onnx import TensorProto

from qdqtool.models.graph.index.constants import Constants
from qdqtool.models.graph.index.qdq import QdqIndex
from qdqtool.models.graph.index.types import TensorTypes
from qdqtool.models.graph.index.view import GraphView, Value
from qdqtool.models.graph.model import Model
from qdqtool.models.plan import Slot
from qdqtool.numerics.dtypes import Array

FLOATS = frozenset({TensorProto.FLOAT, TensorProto.FLOAT16, TensorProto.BFLOAT16, TensorProto.DOUBLE})
"""Element types that represent real numbers."""


# Not slots=True: cached_property needs the __dict__ of the instance.
@dataclass(frozen=True, eq=False)
class ModelIndex:
    """Everything that is known about a model without running it.

    After an edit, make a new index. Types, constants and Q/DQ nodes are computed on first use: a job that only reads
    constants does not run shape inference.
    """

    view: GraphView

    @classmethod
    def of(cls, source: Model | GraphView) -> Self:
        """Index a model, which may be given as a view."""
        return cls(source if isinstance(source, GraphView) else GraphView(source))

    @property
    def model(self) -> Model:
        """The model."""
        return self.view.model

    @cached_property
    def types(self) -> TensorTypes:
        """Element types and shapes, by shape inference."""
        return TensorTypes(self.view)

    @cached_property
    def constants(self) -> Constants:
        """Folded constants, without the Shape of tensors; see :attr:`shape_constants`."""
        return Constants(self.view)

    @cached_property
    def shape_constants(self) -> Constants:
        """Folded constants, including Shape and Size of tensors with known shape."""
        return Constants(self.view, self.types)

    @cached_property
    def qdq(self) -> QdqIndex:
        """Every QuantizeLinear and DequantizeLinear."""
        return QdqIndex(self.view, self.types, self.constants)

    def value(self, slot: Slot) -> Value:
        """Return the tensor that a slot of a plan names."""
        return self.view.scope(slot.scope).values[slot.tensor]

    def elem_type(self, value: Value) -> int | None:
        """Return the ``TensorProto.DataType`` of a tensor (set by its Q, or inferred), or None if it is unknown."""
        maker = self.qdq.maker(value)
        if maker is not None and maker.is_quantize:
            return maker.quantized_type
        return self.types.elem_type(value)

    def is_float(self, value: Value) -> bool:
        """Return whether a tensor is known to be float32, float16, bfloat16 or float64."""
        return self.elem_type(value) in FLOATS

    def is_constant(self, value: Value) -> bool:
        """Return whether :meth:`constant` has a value for a tensor: the tensor is stored or small enough to fold."""
        return self.constants.direct(value) is not None or self.constants.array(value) is not None

    def constant(self, value: Value) -> Array | None:
        """Return the constant in ``value``, or None if it is not constant or too large to fold."""
        return self.constants.array(value)
