"""The nodes that replace one node of ONNX Runtime's own domain."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import onnx

from qdqtool.linting.rules import Draft, UnfitError
from qdqtool.models.graph.edits.edit import AddNode
from qdqtool.models.graph.index.view import NodeView
from qdqtool.numerics.dtypes import Array

_TAKES_SIZES = 13
"""The first opset in which Split and Unsqueeze take sizes and axes as inputs."""


class Body:
    """Collects the nodes that replace one node."""

    def __init__(self, node: NodeView, draft: Draft) -> None:
        self.node = node
        self._draft = draft
        self._nodes: list[tuple[str, tuple[str, ...], tuple[str, ...], str, Mapping[str, Any]]] = []
        self._type = draft.context.elem_type(node.input(0))
        self.needs(_TAKES_SIZES)

    def needs(self, opset: int) -> None:
        """Raise the opset of the model to this one, if it is lower."""
        self._draft.require_opset(self.node.scope, opset)

    def inputs(self, count: int) -> list[str]:
        """Return the names of the first inputs; empty names for absent inputs."""
        return [self.node.input_name(index) for index in range(count)]

    def refuse(self, *indices: int) -> None:
        """Refuse a node with one of these inputs."""
        for index in indices:
            if self.node.input_name(index):
                raise UnfitError(f"its input {index} has no other form")

    def shape(self, index: int) -> Sequence[int | str | None]:
        """Return the shape of an input."""
        found = self._draft.context.shape(self.node.input(index))
        if found is None:
            raise UnfitError(f"the shape of its input {index} is unknown")
        return found

    def size(self, index: int, axis: int = -1) -> int:
        """Return an extent of an input."""
        found = self.shape(index)[axis]
        if not isinstance(found, int):
            raise UnfitError(f"the shape of its input {index} is not static")
        return found

    def count(self, name: str) -> int:
        """Return an attribute that counts something."""
        found = self.node.attribute(name, 0)
        if not isinstance(found, int) or found < 1:
            raise UnfitError(f"its {name} must be positive")
        return found

    def array(self, index: int) -> Array:
        """Return a constant input."""
        found = self._draft.context.array(self.node.input(index))
        if found is None:
            raise UnfitError(f"its input {index} is not constant")
        return found

    def store(self, array: Any) -> str:
        """Store a constant."""
        return self._draft.constant(self.node.scope, f"{self.node.proto.output[0]}_constant", np.asarray(array))

    def ints(self, *values: int) -> str:
        """Store a vector of int64."""
        return self.store(np.array(values, np.int64))

    def number(self, value: float) -> str:
        """Store a number in the type of the data."""
        if self._type is None:
            raise UnfitError("the type of its data is unknown")
        dtype = onnx.helper.tensor_dtype_to_np_dtype(self._type)
        return self.store(np.array(value).astype(dtype))

    def several(self, op_type: str, *inputs: str, outputs: int, domain: str = "", **attributes: Any) -> tuple[str, ...]:
        """Add a node; return the names of its outputs."""
        base = f"{self.node.proto.output[0]}_{op_type}_Output"
        made = tuple(self._draft.namer.tensor(base) for _ in range(outputs))
        self._nodes.append((op_type, inputs, made, domain, attributes))
        return made

    def add(self, op_type: str, *inputs: str, domain: str = "", **attributes: Any) -> str:
        """Add a node with one output; return its name."""
        return self.several(op_type, *inputs, outputs=1, domain=domain, **attributes)[0]

    def sum(self, *terms: str) -> str:
        """Add up the terms that are present."""
        total, *others = filter(None, terms)
        for term in others:
            total = self.add("Add", total, term)
        return total

    def place(self, names: Mapping[str, str]) -> None:
        """Write the nodes in place of the node, and give the results the names of its outputs."""
        draft, scope = self._draft, self.node.scope
        draft.remove(self.node)
        for op_type, inputs, outputs, domain, attributes in self._nodes:
            read, made = (tuple(names.get(name, name) for name in each) for each in (inputs, outputs))
            label = draft.namer.node(f"{self.node.proto.name or self.node.proto.output[0]}_{op_type}")
            draft.edits.append(AddNode(scope.path, op_type, read, made, label, domain, attributes))
