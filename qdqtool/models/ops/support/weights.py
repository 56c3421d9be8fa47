"""Find the stored weights and vectors of a node that an edit may replace, or the reason why they cannot be replaced."""

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import onnx

from qdqtool.models import ops
from qdqtool.models.graph.index.constants import Array, Constants
from qdqtool.models.graph.index.model_index import FLOATS, ModelIndex
from qdqtool.models.graph.index.view import NodeView, Value
from qdqtool.models.graph.io.tensors import read_array
from qdqtool.models.graph.model import Model
from qdqtool.numerics.product import ProductLayout

ShapeOf = Callable[[Value], tuple[int, ...] | None]
"""Returns the extents of a tensor, or None if one of them is unknown."""


def multiply_accumulates(node: NodeView, shape_of: ShapeOf) -> int | None:
    """Return the number of multiply-accumulates of one run of a weighted operator, without its bias.

    Args:
        node: A node for which :func:`qdqtool.models.ops.product` returns an operator.
        shape_of: Returns the shape of a tensor.

    Returns:
        None for other operators. Also None if the shape of the output or weight is unknown, or for a ConvTranspose the
        shape of the input.
    """
    product, output, x = ops.product(node), node.output(), node.input(0)
    weight = node.input(product.weight_input) if product is not None else None
    if product is None or output is None or x is None or weight is None:
        return None
    made, read, dims = shape_of(output), shape_of(x), shape_of(weight)
    if dims is None:
        return None
    layout = product.product_layout(node, dims) if dims and all(dims) else None
    if layout is not None and product.is_convolution and layout.inputs_first:
        # Each input element is multiplied by all weights of its channel. With larger strides, the output of a
        # ConvTranspose has more elements, and each of them sums fewer products.
        return math.prod(read) * (math.prod(dims) // max(layout.inputs, 1)) if read is not None else None
    if made is None:
        return None
    terms = _terms(node, product, dims) if layout is None else math.prod(dims) // max(layout.outputs, 1)
    return math.prod(made) * terms


def estimated_macs(node: NodeView, index: ModelIndex) -> int:
    """Return the multiply-accumulates of a node in one run, where an open dimension counts as 1.

    A node without a product counts 1 for each element of its output, and a recurrent one its weights for each step.
    """
    counted = multiply_accumulates(node, lambda value: _known(value, index))
    if counted is not None:
        return counted
    x, output = node.input(0), node.output()
    if x is not None and node.op_type in _RECURRENT:
        weights = (node.input(1), node.input(2))
        steps = math.prod(_known(x, index)[:2])
        return steps * sum(elements(value, index) for value in weights if value is not None)
    return elements(output, index) if output is not None else 1


def elements(value: Value, index: ModelIndex) -> int:
    """Return the number of elements of a tensor, where an open dimension counts as 1."""
    return math.prod(_known(value, index))


def _known(value: Value, index: ModelIndex) -> tuple[int, ...]:
    shape = index.types.shape(value) or ()
    return tuple(extent if isinstance(extent, int) else 1 for extent in shape)


_RECURRENT = frozenset({"LSTM", "GRU", "RNN"})


def _terms(node: NodeView, product: ops.ProductOp, dims: tuple[int, ...]) -> int:
    """Return the number of products that are summed for one element of the output."""
    axis = product.reduction_axis(node, len(dims))
    if axis is not None:
        return dims[axis] if dims else 1
    kept = product.weight_axis(node, len(dims))
    return math.prod(extent for at, extent in enumerate(dims) if at != kept)


class WeightProblem(Exception):  # noqa: N818  a reason in words, never shown as an error
    """The reason why a weight cannot be replaced."""


@dataclass(frozen=True, slots=True, eq=False)
class StoredWeight:
    """The stored weight of a weighted operator."""

    model: Model
    node: NodeView
    tensor: onnx.TensorProto
    layout: ProductLayout

    def read(self) -> Array:
        """Return the values of the weight, memory-mapped if they are external data."""
        return read_array(self.model, self.tensor)


def stored_weight(node: NodeView, constants: Constants) -> StoredWeight:
    """Return the weight at input 1.

    Raises:
        WeightProblem: The weight is computed, shared, malformed, or not of a float type.
    """
    value = node.input(1)
    tensor = constants.direct(value) if value is not None else None
    if value is None or tensor is None:
        raise WeightProblem("its weight is computed, not stored")
    if len(value.uses) > 1 or value.is_output:
        raise WeightProblem(f"weight '{value.name}' is shared")
    if tensor.data_type not in FLOATS:
        raise WeightProblem(f"weight '{value.name}' is no float tensor")
    product = ops.product(node)
    layout = product.product_layout(node, tuple(tensor.dims)) if product is not None and all(tensor.dims) else None
    if layout is None:
        raise WeightProblem(f"weight '{value.name}' has a shape that does not fit")
    return StoredWeight(constants.model, node, tensor, layout)


def stored_vector(node: NodeView, index: int, channels: int | None, constants: Constants) -> int:
    """Return the length of the stored vector at input ``index``. It has rank 1, or all leading extents are 1.

    Args:
        node: The node.
        index: Index of the input.
        channels: The required length; None for any length above 1.
        constants: Folded constants.

    Raises:
        WeightProblem: The vector is computed, has another shape, or is not of a float type.
    """
    value = node.input(index)
    tensor = constants.direct(value) if value is not None else None
    if tensor is None:
        raise WeightProblem(f"input {index} of '{node.label}' is computed, not stored")
    if tensor.data_type not in FLOATS:
        raise WeightProblem(f"'{tensor.name}' is no float tensor")
    length = tensor.dims[-1] if tensor.dims else 1
    if int(np.prod(tensor.dims)) != length or length < 2 or channels not in (None, length):
        raise WeightProblem(f"'{tensor.name}' does not hold one value for each channel")
    return length
