"""The legal axes of the scales of products: where kernels take them, and where codes can be summed."""

from qdqtool.linting.rules.support.reach import Product
from qdqtool.linting.rules.support.rule_context import RuleContext
from qdqtool.numerics.granularity import PerAxis, PerTensor


def wrong_axis(context: RuleContext, product: Product) -> tuple[int, int] | None:
    """Return the axis of per-axis weight scales and the axis that kernels take, where the two differ.

    Such a layer runs in float. The axis is followed through the Transposes between DQ and product.
    """
    right = product.right
    if right is None or not isinstance(right.dequantize.granularity, PerAxis):
        return None
    shape, axis = context.data_shape(right.dequantize), context.axis(right.dequantize)
    if axis is None:
        return None
    assert shape is not None
    here, wanted = right.axis_here(axis, len(shape)), product.op.weight_axis(product.node, len(shape))
    return (here, wanted) if here is not None and wanted is not None and here != wanted else None


def keeps_sum(context: RuleContext, product: Product, index: int) -> bool:
    """Return whether each sum of the product has one scale of this operand, so that codes can be multiplied.

    Convolutions have no kernel for per-axis activations on any axis.
    """
    side = product.left if index == 0 else product.right
    if side is None or side.dequantize.granularity == PerTensor():
        return True
    node, entry = product.node, side.dequantize
    shape, axis = context.data_shape(entry), context.axis(entry)
    if not product.op.is_matrix_product or not isinstance(entry.granularity, PerAxis) or axis is None:
        return False
    assert shape is not None
    wanted = product.op.weight_axis(node, len(shape)) if index else product.op.row_axis(node, len(shape))
    return wanted is not None and side.axis_here(axis, len(shape)) == wanted
