"""A graph that grows layer by layer while Hypothesis draws it."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np
import onnx
from hypothesis import strategies as st
from onnx import TensorProto, helper

from qdqtool.models.graph.io.tensors import make_tensor

BATCH = 2
"""The first extent of every input; where it is dynamic it is called N."""


@cache
def _below(bound: int) -> st.SearchStrategy[int]:
    """Return the strategy of 0 to ``bound - 1``, made once: a model draws a hundred of them."""
    return st.integers(0, bound - 1)


@dataclass(frozen=True, slots=True)
class Tensor:
    """A float tensor of the main graph, or of the body that is being written."""

    name: str
    shape: tuple[int, ...]
    type: int


class Growing:
    """A model in the making. A subclass says how operators read their activations and weights.

    Args:
        draw: Hypothesis's choices.
        opset: Version of the default domain.
        float_type: Element type of the inputs.

    Attributes:
        tensors: What a layer may read, the newest last.
        nodes: Of the main graph, or of the body that is being written.
        depth: The number of bodies that are being written.
        dynamic: Whether the batch has a name for its extent.
    """

    def __init__(self, draw: st.DrawFn, opset: int, float_type: int) -> None:
        self.draw, self.opset, self.float_type = draw, opset, float_type
        self.dynamic, self._named, self._constant_nodes = (draw(st.booleans()) for _ in range(3))
        self.rng = np.random.default_rng(draw(st.integers(0, 255)))
        self.nodes: list[onnx.NodeProto] = []
        self.initializers: list[onnx.TensorProto] = []
        self.inputs: list[onnx.ValueInfoProto] = []
        self.tensors: list[Tensor] = []
        self.depth = 0
        self._weights: dict[tuple[object, ...], str] = {}
        self._count = 0

    def chance(self, one_in: int) -> bool:
        """Return True once in so many draws; Hypothesis shrinks it to False."""
        return self.draw(_below(one_in)) == one_in - 1

    def pick(self, *choices: Any) -> Any:
        """Return one of the choices; Hypothesis shrinks it to the first."""
        return choices[self.draw(_below(len(choices)))]

    def new_name(self, stem: str = "t") -> str:
        self._count += 1
        return f"{stem}{self._count}"

    def add_input(self, shape: tuple[int, ...], elem_type: int, name: str | None = None) -> Tensor:
        """Add an input of the graph."""
        tensor = Tensor(name or self.new_name("x"), shape, elem_type)
        self.inputs.append(self.info(tensor))
        return tensor

    def flag(self) -> str:
        """Return the input that chooses branches."""
        if not any(info.name == "flag" for info in self.inputs):
            self.add_input((), TensorProto.BOOL, "flag")
        return "flag"

    def info(self, tensor: Tensor) -> onnx.ValueInfoProto:
        """Return the type of a tensor whose first extent is the batch."""
        dims = ["N", *tensor.shape[1:]] if self.dynamic and tensor.shape else tensor.shape
        return helper.make_tensor_value_info(tensor.name, tensor.type, dims)

    def node(self, op_type: str, inputs: list[str], **attributes: object) -> str:
        """Add a node and return its only output."""
        return self.node_of(1, op_type, inputs, **attributes)[0]

    def node_of(self, count: int, op_type: str, inputs: list[str], **attributes: object) -> list[str]:
        """Add a node and return its ``count`` outputs."""
        outputs = [self.new_name() for _ in range(count)]
        name = f"{op_type}_{outputs[0]}" if self._named else None
        self.nodes.append(helper.make_node(op_type, inputs, outputs, name, **attributes))
        return outputs

    def constant(self, values: object, elem_type: int = TensorProto.INT64, stem: str = "c") -> str:
        """Add a constant as this model stores them: as an initializer, or as the output of a Constant node."""
        name = self.new_name(stem)
        tensor = make_tensor(name, np.asarray(values), elem_type)
        if self._constant_nodes:
            tensor.ClearField("name")
            self.nodes.append(helper.make_node("Constant", [], [name], value=tensor))
        else:
            self.initializers.append(tensor)
        return name

    def stored(self, shape: tuple[int, ...], elem_type: int, fan_in: int = 1) -> str:
        """Return float weights between -1 and 1, sometimes those that another layer has."""
        known = self._weights.get((shape, elem_type))
        if known is not None and self.chance(2):
            return known
        values = self.rng.uniform(-1, 1, shape) / np.sqrt(fan_in)
        self._weights[shape, elem_type] = self.constant(values, elem_type, "w")
        return self._weights[shape, elem_type]

    def read(self, tensor: Tensor) -> str:
        """Return what an operator reads for an activation."""
        return tensor.name

    def weight(self, shape: tuple[int, ...], elem_type: int, axis: int, fan_in: int = 1) -> str:
        """Return what an operator reads for its weights, whose output channels stand on ``axis``."""
        return self.stored(shape, elem_type, fan_in)

    def bias(self, length: int, elem_type: int) -> str:
        """Return what an operator reads for its bias."""
        return self.stored((length,), elem_type)

    @contextmanager
    def body(self) -> Iterator[list[onnx.NodeProto]]:
        """Write nodes into a list of their own. What they make is not visible behind it."""
        outside = self.visible()
        self.nodes, self.depth = [], self.depth + 1
        try:
            yield self.nodes
        finally:
            self.restore(outside)
            self.depth -= 1

    def visible(self) -> dict[str, Any]:
        """Return what a body may read and may not change."""
        return {"nodes": self.nodes, "tensors": list(self.tensors), "_weights": dict(self._weights)}

    def restore(self, visible: dict[str, Any]) -> None:
        """Take back what :meth:`visible` returned."""
        for name, value in visible.items():
            setattr(self, name, value)
