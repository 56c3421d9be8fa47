"""Constant folding: the value of a tensor that only depends on constants, through the chains that exporters write.

The folder never executes a model: it knows a closed set of small operators, refuses results above a size limit, and
gives None for everything else.
"""

import functools
from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt
import onnx
from onnx import TensorProto

from qdqtool import formats
from qdqtool.graph.model import Model
from qdqtool.graph.tensors import element_count, read_array
from qdqtool.graph.view import GraphView, NodeView, Value
from qdqtool.numerics.affine import dequantize
from qdqtool.numerics.granularity import Blocked, Granularity, PerAxis, PerTensor

Array = npt.NDArray[np.generic]

MAX_FOLDED_ELEMENTS = 1 << 24
"""A chain whose inputs or result have more elements is not folded. Plain initializers are read at any size."""

MAX_DEPTH = 64


class Constants:
    """Folded constants of one model, each computed once.

    Args:
        view: The index of the model.
    """

    def __init__(self, view: GraphView) -> None:
        self._model: Model = view.model
        self._constant: dict[Value, bool] = {}
        self._folded: dict[Value, Array | None] = {}

    def direct(self, value: Value) -> TensorProto | None:
        """The stored tensor, if ``value`` is an initializer or the output of a Constant node."""
        if value.initializer is not None:
            return value.initializer
        if value.producer is not None and value.producer.is_op("Constant"):
            found = value.producer.attribute("value")
            return found if isinstance(found, TensorProto) else None
        return None

    def is_constant(self, value: Value) -> bool:
        """Whether ``value`` folds to a constant. Reads no data.

        An initializer counts even when it is also a graph input, whose caller could replace it.
        """
        return self._is_constant(value, MAX_DEPTH)

    def array(self, value: Value) -> Array | None:
        """The constant, or None when ``value`` is not constant or the chain is too large to fold."""
        stored = self.direct(value)
        if stored is not None:
            return read_array(self._model, stored)
        if value not in self._folded:
            self._folded[value] = self._fold(value) if self.is_constant(value) else None
        return self._folded[value]

    def _is_constant(self, value: Value, depth: int) -> bool:
        if value not in self._constant:
            self._constant[value] = False  # a cycle is not constant
            self._constant[value] = self._decide(value, depth)
        return self._constant[value]

    def _decide(self, value: Value, depth: int) -> bool:
        if value.initializer is not None:
            return True
        node = value.producer
        if node is None or depth == 0:
            return False
        if node.is_op("Constant"):
            return True
        if not node.is_op(*_FOLDERS) or node.output() is not value:
            return False
        inputs = [node.input(index) for index in range(len(node.proto.input)) if node.input_name(index)]
        return all(found is not None and self._is_constant(found, depth - 1) for found in inputs)

    def _fold(self, value: Value) -> Array | None:
        node = value.producer
        assert node is not None
        if node.is_op("Constant"):
            return _constant_attribute(node)
        inputs: list[Array | None] = []
        for index in range(len(node.proto.input)):
            source = node.input(index)
            array = self._small(source) if source is not None else None
            if source is not None and array is None:
                return None
            inputs.append(array)
        try:
            with np.errstate(all="ignore"):
                result = np.asarray(_FOLDERS[node.op_type](node, inputs))
        except (ValueError, TypeError, IndexError, KeyError, AttributeError, OverflowError, MemoryError):
            return None  # the chain is malformed; whoever needs the value reports that it is not constant
        return result if result.size <= MAX_FOLDED_ELEMENTS else None

    def _small(self, value: Value) -> Array | None:
        stored = self.direct(value)
        if stored is not None and element_count(stored) > MAX_FOLDED_ELEMENTS:
            return None
        return self.array(value)


def _constant_attribute(node: NodeView) -> Array | None:
    for name, dtype in (
        ("value_float", np.float32),
        ("value_floats", np.float32),
        ("value_int", np.int64),
        ("value_ints", np.int64),
    ):
        found = node.attribute(name)
        if found is not None:
            return np.asarray(found, dtype)
    return None


Inputs = list[Any]


def _cast(node: NodeView, inputs: Inputs) -> Any:
    return inputs[0].astype(onnx.helper.tensor_dtype_to_np_dtype(node.attribute("to")))


def _reshape(node: NodeView, inputs: Inputs) -> Any:
    wanted = [int(dim) for dim in inputs[1]]
    if not node.attribute("allowzero", 0):
        wanted = [inputs[0].shape[index] if dim == 0 else dim for index, dim in enumerate(wanted)]
    return inputs[0].reshape(wanted)


def _axes(node: NodeView, inputs: Inputs) -> tuple[int, ...] | None:
    found = inputs[1] if len(inputs) > 1 and inputs[1] is not None else node.attribute("axes")
    return None if found is None else tuple(int(axis) for axis in found)


def _unsqueeze(node: NodeView, inputs: Inputs) -> Any:
    return np.expand_dims(inputs[0], _axes(node, inputs) or ())


def _squeeze(node: NodeView, inputs: Inputs) -> Any:
    return np.squeeze(inputs[0], _axes(node, inputs))


def _flatten(node: NodeView, inputs: Inputs) -> Any:
    axis = node.attribute("axis", 1)
    shape = inputs[0].shape
    return inputs[0].reshape(int(np.prod(shape[:axis], dtype=np.int64)), -1)


def _gather(node: NodeView, inputs: Inputs) -> Any:
    return np.take(inputs[0], inputs[1], axis=node.attribute("axis", 0))


def _concat(node: NodeView, inputs: Inputs) -> Any:
    return np.concatenate(inputs, axis=node.attribute("axis", 0))


def _constant_of_shape(node: NodeView, inputs: Inputs) -> Any:
    shape = tuple(int(dim) for dim in inputs[0])
    if any(dim < 0 for dim in shape) or np.prod(np.array(shape, dtype=object)) > MAX_FOLDED_ELEMENTS:
        raise ValueError("the shape is not foldable")
    fill = node.attribute("value")
    filler = onnx.numpy_helper.to_array(fill) if fill is not None else np.zeros(1, np.float32)
    return np.full(shape, filler.reshape(-1)[0])


def _expand(_node: NodeView, inputs: Inputs) -> Any:
    shape = np.broadcast_shapes(inputs[0].shape, tuple(int(dim) for dim in inputs[1]))
    if np.prod(np.array(shape, dtype=object)) > MAX_FOLDED_ELEMENTS:
        raise ValueError("the shape is not foldable")
    return np.broadcast_to(inputs[0], shape)


def _dequantize(node: NodeView, inputs: Inputs) -> Any:
    codes, scale = inputs[0], inputs[1]
    zero_point = inputs[2] if len(inputs) > 2 else None
    if formats.by_dtype(codes.dtype) is None and codes.dtype != np.int32:
        raise ValueError("not a quantized type")
    return dequantize(codes, scale, _granularity(node, scale, codes.shape), zero_point)


def _granularity(node: NodeView, scale: Array, shape: tuple[int, ...]) -> Granularity:
    axis = node.attribute("axis", 1)
    if scale.ndim <= 1 and scale.size == 1:
        return PerTensor()
    if scale.ndim == 1:
        return PerAxis(axis)
    return Blocked(axis, node.attribute("block_size", 0) or -(-shape[axis] // scale.shape[axis]))


def _elementwise(function: Callable[..., Any]) -> Callable[[NodeView, Inputs], Any]:
    def fold(_node: NodeView, inputs: Inputs) -> Any:
        return function(*inputs)

    return fold


def _divide(left: Array, right: Array) -> Any:
    if left.dtype.kind in "iu":
        return (np.trunc(left.astype(np.float64) / right.astype(np.float64))).astype(left.dtype)
    return np.divide(left, right)


_FOLDERS: dict[str, Callable[[NodeView, Inputs], Any]] = {
    "Abs": _elementwise(np.abs),
    "Add": _elementwise(np.add),
    "Cast": _cast,
    "Concat": _concat,
    "ConstantOfShape": _constant_of_shape,
    "DequantizeLinear": _dequantize,
    "Div": _elementwise(_divide),
    "Exp": _elementwise(np.exp),
    "Expand": _expand,
    "Flatten": _flatten,
    "Gather": _gather,
    "Identity": _elementwise(lambda array: array),
    "Max": _elementwise(lambda *arrays: functools.reduce(np.maximum, arrays)),
    "Min": _elementwise(lambda *arrays: functools.reduce(np.minimum, arrays)),
    "Mul": _elementwise(np.multiply),
    "Neg": _elementwise(np.negative),
    "Pow": _elementwise(lambda base, power: np.power(base, power).astype(base.dtype)),
    "Reciprocal": _elementwise(lambda array: (1 / array).astype(array.dtype)),
    "Reshape": _reshape,
    "Shape": _elementwise(lambda array: np.asarray(array.shape, np.int64)),
    "Sqrt": _elementwise(np.sqrt),
    "Squeeze": _squeeze,
    "Sub": _elementwise(np.subtract),
    "Transpose": lambda node, inputs: np.transpose(inputs[0], node.attribute("perm")),
    "Unsqueeze": _unsqueeze,
}
