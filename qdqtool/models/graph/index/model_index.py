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
"""Element types in which a model computes with real numbers."""


# Not slots=True: cached_property needs the instance's __dict__.
@dataclass(frozen=True, eq=False)
class ModelIndex:
    """The knowledge about a model that needs no run.

    Make a new one after an edit. Types, constants and Q/DQ nodes are computed when they are first asked for: a job that
    only reads constants does not pay for shape inference.

    Attributes:
        view: Scopes, nodes and tensors.
    """

    view: GraphView

    @classmethod
    def of(cls, source: Model | GraphView) -> Self:
        """Index a model, or one that has a view already."""
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
        """Folded constants. The Shape of a tensor is none of them, see :attr:`shape_constants`."""
        return Constants(self.view)

    @cached_property
    def shape_constants(self) -> Constants:
        """Folded constants, where the Shape and Size of a tensor of known shape are constant too."""
        return Constants(self.view, self.types)

    @cached_property
    def qdq(self) -> QdqIndex:
        """Every QuantizeLinear and DequantizeLinear."""
        return QdqIndex(self.view, self.types, self.constants)

    def value(self, slot: Slot) -> Value:
        """Return the tensor that a slot of a plan names."""
        return self.view.scope(slot.scope).values[slot.tensor]

    def elem_type(self, value: Value) -> int | None:
        """Return the ``TensorProto.DataType`` of a tensor, from its Q or else as inferred; None where it is unknown."""
        maker = self.qdq.maker(value)
        if maker is not None and maker.is_quantize:
            return maker.quantized_type
        return self.types.elem_type(value)

    def is_float(self, value: Value) -> bool:
        """Whether a tensor is known to hold float32, float16, bfloat16 or float64."""
        return self.elem_type(value) in FLOATS

    def is_constant(self, value: Value) -> bool:
        """Return whether :meth:`constant` has a value for a tensor: it is stored, or folds within the size limit."""
        return self.constants.direct(value) is not None or self.constants.array(value) is not None

    def constant(self, value: Value) -> Array | None:
        """Return the constant that ``value`` holds; None where it is not constant or too large to fold."""
        return self.constants.array(value)
