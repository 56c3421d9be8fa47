"""The base class of builders of models with switches: it adds inputs in place of tensors that nodes read."""

from collections.abc import Iterable, Sequence

import numpy as np
import onnx
from onnx import TensorProto

from qdqtool.models.graph.edits.edit import AddNode, Edit, RenameOutput, SetInput
from qdqtool.models.graph.edits.naming import Namer
from qdqtool.models.graph.edits.surgeon import apply_edits
from qdqtool.models.graph.edits.unused import DeadCode
from qdqtool.models.graph.index.view import GraphView, NodeView, Value
from qdqtool.models.graph.model import Model
from qdqtool.models.graph.scope import ScopePath
from qdqtool.numerics.dtypes import BFLOAT16, FLOAT32, Array


class SwitchBuilder:
    """Adds switches to a model, as edits and inputs."""

    def __init__(self, view: GraphView) -> None:
        self._view = view
        self._namer, self._dead = Namer(view), DeadCode(view)
        self._edits: list[Edit] = []
        self._inputs: list[onnx.ValueInfoProto] = []

    def built(self) -> Model:
        """Return the model with the switches."""
        model = self._view.model.fork()
        model.proto = onnx.ModelProto()
        model.proto.CopyFrom(self._view.model.proto)
        model.proto.graph.input.extend(self._inputs)
        return apply_edits(model, [*self._edits, *self._dead.edits()])

    def add_input(self, base: str, elem_type: int, shape: Sequence[int]) -> str:
        """Add an input, and return its name."""
        name = self._namer.tensor(f"{base}_switched")
        self._inputs.append(onnx.helper.make_tensor_value_info(name, elem_type, list(shape)))
        return name

    def add_array_input(self, base: str, array: Array) -> tuple[str, str]:
        """Add an input for an array; return the names of the input and of the tensor with the type of the array."""
        if array.dtype != BFLOAT16:
            name = self.add_input(base, onnx.helper.np_dtype_to_tensor_dtype(array.dtype), array.shape)
            return name, name
        # ONNX Runtime takes no bfloat16 from NumPy.
        name = self.add_input(base, TensorProto.FLOAT, array.shape)
        return name, self.cast((), name, TensorProto.BFLOAT16)

    def cast(self, scope: ScopePath, tensor: str, to: int) -> str:
        """Add a Cast of a tensor to another type, and return the name of the result."""
        made = self._namer.tensor(f"{tensor}_cast")
        self._edits.append(AddNode(scope, "Cast", (tensor,), (made,), self._namer.node(made), attributes={"to": to}))
        return made

    def add_where(self, scope: ScopePath, choice: tuple[str, str], made: str) -> str:
        """Add a Where that chooses the first of two tensors if its mask is true; return the name of the mask input."""
        mask = self.add_input(f"{made}_mask", TensorProto.BOOL, ())
        self._edits.append(AddNode(scope, "Where", (mask, *choice), (made,), self._namer.node(f"{made}_Where")))
        return mask

    def rename(self, value: Value, maker: NodeView) -> str:
        """Rename the first output of a node, and return the new name."""
        name = self._namer.tensor(f"{value.name}_always")
        self._edits.append(RenameOutput(value.scope.path, maker.key, 0, name))
        return name

    def read(self, uses: Iterable[tuple[NodeView, int]], tensor: str) -> None:
        """Let inputs of nodes read another tensor."""
        for node, index in uses:
            self._edits.append(SetInput(node.scope.path, node.key, index, tensor))
            self._dead.drop_use(node, index)


def fed(array: Array) -> Array:
    """Return an array in the form that ONNX Runtime accepts: contiguous, and bfloat16 as float32."""
    return np.ascontiguousarray(array.astype(FLOAT32) if array.dtype == BFLOAT16 else array).reshape(array.shape)
