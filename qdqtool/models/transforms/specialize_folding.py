"""Replace shape arithmetic by its value: integers, booleans, and small float tensors computed from shapes."""

import math
from collections.abc import Iterator

import onnx

from qdqtool.models.graph.edits.edit import AddInitializer, Edit, RemoveNode
from qdqtool.models.graph.edits.surgeon import apply_edits
from qdqtool.models.graph.edits.unused import DeadCode
from qdqtool.models.graph.index.constants import Array
from qdqtool.models.graph.index.model_index import ModelIndex
from qdqtool.models.graph.index.view import Value
from qdqtool.models.graph.io.tensors import make_tensor
from qdqtool.models.graph.model import Model
from qdqtool.models.graph.transformed import Transformed

MAX_ELEMENTS = 1024
"""Largest number of elements that is folded: shapes, axes and pads are far smaller, larger constants are data."""


def fold_shape_arithmetic(model: Model) -> Transformed[None]:
    """Replace each constant result of shape arithmetic with other consumers by an initializer.

    Args:
        model: The model; it is not changed.
    """
    while True:
        edits = _edits(ModelIndex.of(model))
        if not edits:
            return Transformed(model, None)
        model = apply_edits(model, edits)


def _edits(index: ModelIndex) -> list[Edit]:
    foldable = dict(_foldable(index))
    dead = DeadCode(index.view)
    edits: list[Edit] = []
    for value, array in foldable.items():
        if not _is_wanted(value, foldable):
            continue
        assert value.producer is not None
        onnx_type = onnx.helper.np_dtype_to_tensor_dtype(array.dtype)
        edits.append(AddInitializer(value.scope.path, make_tensor(value.name, array, onnx_type)))
        edits.append(RemoveNode(value.scope.path, value.producer.key))
        dead.drop_node(value.producer)
    return edits + dead.edits()


def _foldable(index: ModelIndex) -> Iterator[tuple[Value, Array]]:
    for value in index.view.values():
        node = value.producer
        if node is None or node.is_op("Constant") or value.is_output or sum(map(bool, node.proto.output)) != 1:
            continue
        if _is_large(value, index):
            continue
        array = index.shape_constants.array(value)
        if array is None or array.size > MAX_ELEMENTS:
            continue
        if array.dtype.kind in "iub" or (array.dtype.kind == "f" and _comes_from_shape(value)):
            yield value, array


def _is_large(value: Value, index: ModelIndex) -> bool:
    """Whether the known shape of a tensor has too many elements, so that its value need not be computed."""
    shape = index.types.full_shape(value)
    return shape is not None and math.prod(shape) > MAX_ELEMENTS


def _is_wanted(value: Value, foldable: dict[Value, Array]) -> bool:
    """Whether a node that is not folded itself reads the value."""
    return any(use.node.output() not in foldable for use in value.uses)


def _comes_from_shape(value: Value) -> bool:
    seen: set[Value] = set()
    waiting = [value]
    while waiting:
        node = waiting.pop().producer
        if node is None:
            continue
        if node.is_op("Shape", "Size"):
            return True
        sources = {source for index in range(len(node.proto.input)) if (source := node.input(index)) is not None}
        waiting += sources - seen
        seen |= sources
    return False
