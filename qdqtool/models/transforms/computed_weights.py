"""Store the weights that a model computes from stored tensors, so that other transforms can change them."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import onnx

from qdqtool.models import ops
from qdqtool.models.graph.edits.edit import AddInitializer, Edit, RemoveNode
from qdqtool.models.graph.edits.surgeon import apply_edits
from qdqtool.models.graph.edits.unused import DeadCode
from qdqtool.models.graph.index.constants import Array
from qdqtool.models.graph.index.model_index import ModelIndex
from qdqtool.models.graph.index.qdq import is_dequantized
from qdqtool.models.graph.index.view import GraphView, Value
from qdqtool.models.graph.io.tensors import make_tensor
from qdqtool.models.graph.model import Model, Transformed
from qdqtool.models.graph.scope import display


@dataclass(frozen=True, slots=True)
class ComputedWeight:
    """A computed weight that is now stored.

    Attributes:
        tensor: Name of the weight, which does not change.
        graph: Scope of the weight; empty for the main graph.
        op_type: The operator that computed the weight.
    """

    tensor: str
    graph: str
    op_type: str


def store_computed_weights(model: Model) -> Transformed[tuple[ComputedWeight, ...]]:
    """Store each weight of a weighted operator that is computed from constants, for example by weight normalization.

    A weight that is only moved (Transpose, Reshape, Split) is not stored: readers of weights look through these
    operators. Weights in local functions, graph outputs, dequantized weights and very large results are not stored.
    """
    index = ModelIndex.of(model)
    found = dict(_computed(index))
    if not found:
        return Transformed(model, ())
    stored = tuple(
        ComputedWeight(value.name, display(value.scope.path), value.producer.op_type)
        for value in found
        if value.producer is not None
    )
    return Transformed(apply_edits(model, storing_edits(index.view, found)), stored)


def storing_edits(view: GraphView, found: Mapping[Value, Array]) -> list[Edit]:
    """Return the edits that store tensors as constants, in place of the nodes that make them."""
    edits: list[Edit] = []
    dead = DeadCode(view)
    for value, array in found.items():
        assert value.producer is not None
        onnx_type = onnx.helper.np_dtype_to_tensor_dtype(array.dtype)
        edits.append(AddInitializer(value.scope.path, make_tensor(value.name, array, onnx_type)))
        edits.append(RemoveNode(value.scope.path, value.producer.key))
        dead.drop_node(value.producer)
    return edits + dead.edits()


def _computed(index: ModelIndex) -> Iterator[tuple[Value, Array]]:
    for node in index.view.nodes():
        product = ops.product(node)
        weight = node.input(product.weight_input) if product is not None and not node.scope.in_function else None
        if weight is not None and _is_computed(weight, index):
            array = index.constants.readable(weight)
            if array is not None:
                yield weight, array


def _is_computed(weight: Value, index: ModelIndex) -> bool:
    """Return whether arithmetic on constants makes a weight, and a stored weight can replace it."""
    maker = weight.producer
    if maker is None or weight.is_output or len(maker.proto.output) != 1 or weight.scope.in_function:
        return False
    if not index.constants.is_constant(weight) or any(is_dequantized(each) for each in ops.moved_from(weight)):
        return False
    return not any(index.constants.direct(each) is not None for each in ops.moved_from(weight))
