"""Compare block scales with the data that they divide."""

import sys
from collections.abc import Iterator
from dataclasses import dataclass

from qdqtool.linting.rules.support.reach import Product
from qdqtool.linting.rules.support.rule_context import RuleContext
from qdqtool.models import ops
from qdqtool.models.graph.index.qdq import QdqNode
from qdqtool.models.graph.index.types import static_shape
from qdqtool.numerics.granularity import PerAxis, PerTensor


def wrong_axis(context: RuleContext, product: Product) -> tuple[int, int] | None:
    """Return the axis of per-axis weight scales and the axis that kernels need; None if the two are equal.

    A layer with the wrong axis runs in float. The axis is followed through Transposes between DQ and product.
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
    """Return whether all terms of each sum in the product have the same scale of this operand, as integer kernels need.

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


def is_bias(dequantize: QdqNode) -> bool:
    """Return whether a DQ is read only as the bias of a Conv or Gemm."""
    uses = dequantize.uses
    products = ((ops.product(use.node), use.index) for use in uses)
    return bool(uses) and all(op is not None and op.bias_input == index for op, index in products)


@dataclass(frozen=True, slots=True, eq=False)
class Blocks:
    """A Q or DQ whose scale has the rank of the data. All extents are known.

    Attributes:
        entry: The node.
        shape: Shape of the data.
        scale: Shape of the scale.
        blocked: The axes on which scale and data have different extents.
    """

    entry: QdqNode
    shape: tuple[int, ...]
    scale: tuple[int, ...]
    blocked: tuple[int, ...]

    @property
    def legal_sizes(self) -> tuple[int, int]:
        """The smallest and largest block size for this number of blocks. The last block may be shorter.

        ONNX: ``ceil(D / S)`` to ``ceil(D / (S - 1)) - 1`` for extent D and S blocks. A single block may have any size
        of at least D: quantizers write their usual block size even if the axis is shorter, and ONNX Runtime runs it.
        """
        (axis,) = self.blocked
        extent, count = self.shape[axis], self.scale[axis]
        smallest = -(-extent // count)
        return smallest, (-(-extent // (count - 1)) - 1 if count > 1 else sys.maxsize)


def blocks(context: RuleContext) -> Iterator[Blocks]:
    """Yield every Q and DQ with block scales."""
    for entry in context.qdq.nodes:
        counts, extents = static_shape(entry.scale_shape), static_shape(context.data_shape(entry))
        if counts and extents and 2 <= len(counts) == len(extents) and 0 not in counts:
            blocked = tuple(axis for axis, (have, want) in enumerate(zip(counts, extents, strict=True)) if have != want)
            yield Blocks(entry, extents, counts, blocked)


def vector_blocks(context: RuleContext, entry: QdqNode) -> Blocks | None:
    """Return the blocks of a Q or DQ of 1-D data, as ONNX reads them; None if the scale is per-tensor or per-axis.

    A 1-D scale has blocks only in ONNX, and only with ``block_size``: TensorRT reads it as a per-axis scale.
    """
    scale, shape = static_shape(entry.scale_shape), static_shape(context.data_shape(entry))
    if entry.block_size <= 0 or scale is None or shape is None or not len(scale) == len(shape) == 1:
        return None
    return Blocks(entry, shape, scale, (0,)) if 2 <= scale[0] <= shape[0] else None
