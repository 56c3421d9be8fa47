"""Count the multiply-accumulates of a product from the shapes of its tensors."""

import math
from collections.abc import Callable

from qdqtool.models import ops
from qdqtool.models.graph.index.view import NodeView, Value

ShapeOf = Callable[[Value], tuple[int, ...] | None]
"""The extents of a tensor; None where one of them is not known."""


def multiply_accumulates(node: NodeView, shape_of: ShapeOf) -> int | None:
    """Return the multiply-accumulates of one run of a product, its bias not counted.

    Args:
        node: A node for which :func:`qdqtool.models.ops.product` returns an operator.
        shape_of: The shapes of its tensors.

    Returns:
        None where the shape of its output, its weight or, for a ConvTranspose, its input is not known, and for any
        other operator.
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
        # Each element of the input meets the weights of its channel. The output of a ConvTranspose has more elements
        # the larger its strides are, and sums fewer products for each.
        return math.prod(read) * (math.prod(dims) // max(layout.inputs, 1)) if read is not None else None
    if made is None:
        return None
    terms = _terms(node, product, dims) if layout is None else math.prod(dims) // max(layout.outputs, 1)
    return math.prod(made) * terms


def _terms(node: NodeView, product: ops.ProductOp, dims: tuple[int, ...]) -> int:
    """Return how many products are summed for one element of the output."""
    axis = product.reduction_axis(node, len(dims))
    if axis is not None:
        return dims[axis] if dims else 1
    kept = product.weight_axis(node, len(dims))
    return math.prod(extent for at, extent in enumerate(dims) if at != kept)
