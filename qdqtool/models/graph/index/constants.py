"""Constant folding: compute tensors that depend only on constants, through chains of small operators.

The folder never executes a model: it supports a fixed set of small operators and refuses results above a size limit. It
returns None for everything else.
"""

import math

import numpy as np
import numpy.typing as npt
from onnx import TensorProto

from qdqtool.errors import ModelError
from qdqtool.models.graph.index.folders import FOLDERS, MAX_FOLDED_ELEMENTS
from qdqtool.models.graph.index.signature import signature_of
from qdqtool.models.graph.index.types import TensorTypes
from qdqtool.models.graph.index.view import GraphView, NodeView, Value
from qdqtool.models.graph.index.weight_folders import AT_ANY_SIZE, SEVERAL_OUTPUTS, WEIGHT_FOLDERS
from qdqtool.models.graph.io.tensors import element_count, external_entry, is_external, read_array
from qdqtool.models.graph.model import Model

Array = npt.NDArray[np.generic]

# Python's recursion limit is 1,000 frames, and a hostile model may have a longer chain.
MAX_DEPTH = 64

FOLDABLE = frozenset(FOLDERS)
"""Operators for which :func:`fold_node` gives the same bits as the reference session."""

_KNOWN = {**FOLDERS, **WEIGHT_FOLDERS}

_STRETCHING = (
    *("Add", "And", "Div", "Equal", "Greater", "GreaterOrEqual", "Less", "LessOrEqual", "Max", "Mean", "Min", "Mul"),
    *("Or", "Pow", "Sub", "Sum", "Where", "Xor"),
)
"""Operators that broadcast their inputs."""


class Constants:
    """Folded constants of one model; each is computed once.

    Args:
        view: The index of the model.
        types: Tensor types of the model. If given, Shape and Size of a tensor of known shape are constant too.
    """

    def __init__(self, view: GraphView, types: TensorTypes | None = None) -> None:
        self.model: Model = view.model
        self._types = types
        self._constant: dict[Value, bool] = {}
        self._folded: dict[Value, Array | None] = {}
        self._minima: dict[Value, float | None] = {}

    def direct(self, value: Value) -> TensorProto | None:
        """Return the stored tensor if ``value`` is an initializer or the output of a Constant node, else None."""
        if value.initializer is not None:
            return value.initializer
        if value.producer is not None and value.producer.is_op("Constant") and not value.producer.is_parametric:
            found = value.producer.attribute("value")
            return found if isinstance(found, TensorProto) else None
        return None

    def is_constant(self, value: Value) -> bool:
        """Return whether ``value`` folds to a constant, without reading data.

        An initializer counts as constant even if it is also a graph input, which a caller could replace.
        """
        return self._is_constant(value, MAX_DEPTH)

    def array(self, value: Value) -> Array | None:
        """Return the constant; None if ``value`` is not constant, if data is missing, or if it is too large to fold."""
        stored = self.direct(value)
        if stored is not None:
            missing = is_external(stored) and external_entry(stored, "location") in self.model.missing_data
            return None if missing else read_array(self.model, stored)
        if value in self._folded:
            return self._folded[value]
        folded = self._fold(value) if self.is_constant(value) else None
        if folded is None or folded.size <= MAX_FOLDED_ELEMENTS:
            self._folded[value] = folded
        return folded

    def minimum(self, value: Value) -> float | None:
        """Return the smallest element of a constant, or None if :meth:`array` is None or empty."""
        # Cached: every Add of a decoder depends on the Gather of embeddings, which is a gigabyte and no mask.
        if value not in self._minima:
            array = self.array(value)
            self._minima[value] = float(array.min()) if array is not None and array.size else None
        return self._minima[value]

    def readable(self, value: Value) -> Array | None:
        """Return :meth:`array`, or None if the stored bytes do not fit the declared shape and type."""
        try:
            return self.array(value)
        except ModelError:
            return None

    def _is_constant(self, value: Value, depth: int) -> bool:
        if value not in self._constant:
            # Set before the search, so that a tensor in a cycle is not constant.
            self._constant[value] = False
            self._constant[value] = self._decide(value, depth)
        return self._constant[value]

    def _decide(self, value: Value, depth: int) -> bool:
        if value.initializer is not None:
            return True
        node = value.producer
        if node is None or depth == 0 or node.is_parametric:
            return False
        if node.is_op("Constant") or self._known_shape(node) is not None:
            return True
        if not node.is_op(*_KNOWN) or (node.output() is not value and not node.is_op(*SEVERAL_OUTPUTS)):
            return False
        if not _has_its_operands(node):
            return False
        inputs = [node.input(index) for index in range(len(node.proto.input)) if node.input_name(index)]
        return all(found is not None and self._is_constant(found, depth - 1) for found in inputs)

    def _fold(self, value: Value) -> Array | None:
        node = value.producer
        assert node is not None
        if node.is_op("Constant"):
            return _constant_attribute(node)
        try:
            inputs = self._inputs(node)
            if inputs is None:
                return None
            if _known_elements(node, inputs) > MAX_FOLDED_ELEMENTS:
                return None
            result = fold_node(node, inputs, list(node.proto.output).index(value.name))
        except (ValueError, TypeError, IndexError, KeyError, AttributeError, OverflowError, MemoryError):
            # The chain is malformed. Code that needs the value reports that it is not constant.
            return None
        stored = inputs[0].size if node.is_op(*AT_ANY_SIZE) and inputs[0] is not None else 0
        foldable = result.size <= max(MAX_FOLDED_ELEMENTS, stored) and not result.dtype.hasobject
        return result if foldable else None

    def _inputs(self, node: NodeView) -> list[Array | None] | None:
        """Return the input arrays of a node, with None for absent inputs, or None if an input is too large to fold."""
        shape = self._known_shape(node)
        if shape is not None:
            # Shape and Size need only the shape: a broadcast view of it takes one byte, whatever its extents are.
            return [np.broadcast_to(np.int8(0), shape)]
        take = self.array if node.is_op(*AT_ANY_SIZE) else self._small
        # A Concat may have the same input a thousand times.
        arrays: dict[Value | None, Array | None] = {None: None}
        for source in node.inputs:
            if source is not None and source not in arrays:
                arrays[source] = take(source)
                if arrays[source] is None:
                    return None
        return [arrays[source] for source in node.inputs]

    def _known_shape(self, node: NodeView) -> tuple[int, ...] | None:
        """Return the shape that a Shape or Size node reads, or None if it is not completely known."""
        # Not in a local function, because the types that are inferred there are valid for one call only.
        if self._types is None or node.scope.in_function or not node.is_op("Shape", "Size"):
            return None
        source = node.input(0)
        return self._types.full_shape(source) if source is not None else None

    def _small(self, value: Value) -> Array | None:
        stored = self.direct(value)
        if stored is not None and element_count(stored) > MAX_FOLDED_ELEMENTS:
            return None
        return self.array(value)


def _has_its_operands(node: NodeView) -> bool:
    """Return whether a node has every input that its operator requires."""
    signature = signature_of(node.op_type, node.scope.opset)
    operands = signature.operands if signature is not None else ()
    return all(node.input_name(index) for index, operand in enumerate(operands) if operand.is_required)


def _known_elements(node: NodeView, inputs: list[Array | None]) -> int:
    """Return the number of elements of the result of a Concat or a broadcasting operator; 0 for other operators."""
    arrays = [array for array in inputs if array is not None]
    if node.is_op("Concat"):
        return sum(array.size for array in arrays)
    return math.prod(np.broadcast_shapes(*(array.shape for array in arrays))) if node.is_op(*_STRETCHING) else 0


def fold_node(node: NodeView, inputs: list[Array | None], output: int = 0) -> Array:
    """Compute an output of a node that folding supports.

    Args:
        node: The node.
        inputs: Input arrays; None for an absent input.
        output: The index of the output.
    """
    with np.errstate(all="ignore"):
        found = _KNOWN[node.op_type](node, inputs)
        return np.asarray(found[output] if isinstance(found, list) else found)


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
