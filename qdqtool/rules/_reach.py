"""From an operand of a Conv, Gemm or MatMul back to the DQ that it comes from."""

from dataclasses import dataclass
from typing import TYPE_CHECKING

from qdqtool import ops
from qdqtool.graph.qdq import QdqIndex, QdqNode
from qdqtool.graph.view import NodeView, Value
from qdqtool.numerics.granularity import PerAxis
from qdqtool.ops import QuantizableOp

if TYPE_CHECKING:
    from qdqtool.rules._facts import Facts

MAX_STEPS = 64


@dataclass(frozen=True, slots=True, eq=False)
class Operand:
    """The DQ behind an operand.

    Attributes:
        dequantize: The DQ.
        between: The operators between it and the operand, the last one first. They only move values, or cast them.
    """

    dequantize: QdqNode
    between: tuple[NodeView, ...]

    def axis_here(self, axis: int, rank: int) -> int | None:
        """Where ``axis`` of the DQ's output is in the operand; None when an operator between is no Transpose."""
        for node in reversed(self.between):
            if node.is_op("Identity", "Cast"):
                continue
            order = node.attribute("perm", range(rank - 1, -1, -1))
            if not node.is_op("Transpose") or not isinstance(order, list | range) or axis not in order:
                return None
            axis = order.index(axis)
        return axis


@dataclass(frozen=True, slots=True, eq=False)
class Product:
    """A Conv, ConvTranspose, Gemm or MatMul with the DQs behind its two operands.

    Attributes:
        node: The node.
        op: What is known of its operator.
        left: What its first operand comes from; None where that is not quantized.
        right: The same of its weight operand, which may be an activation too.
    """

    node: NodeView
    op: QuantizableOp
    left: Operand | None
    right: Operand | None

    @property
    def weight_index(self) -> int:
        """The index of the weight operand."""
        assert self.op.weight_input is not None
        return self.op.weight_input


def wrong_axis(facts: "Facts", product: Product) -> tuple[int, int] | None:
    """The axis of per-axis weight scales and the one that kernels take, where the two differ.

    Such a layer runs in float. The axis is carried through the Transposes between DQ and product.
    """
    right = product.right
    if right is None or not isinstance(right.dequantize.granularity, PerAxis):
        return None
    shape, axis = facts.data_shape(right.dequantize), facts.axis(right.dequantize)
    if shape is None or axis is None:
        return None
    here, wanted = right.axis_here(axis, len(shape)), product.op.weight_axis(product.node, len(shape))
    return (here, wanted) if here is not None and wanted is not None and here != wanted else None


def operand(qdq: QdqIndex, value: Value | None) -> Operand | None:
    """The DQ that ``value`` comes from, directly or through operators that only move or cast values."""
    between: list[NodeView] = []
    for _ in range(MAX_STEPS):
        entry = qdq.dequantizer_of(value)
        if entry is not None:
            return Operand(entry, tuple(between))
        producer = value.producer if value is not None else None
        if producer is None:
            return None
        known = ops.get(producer)
        if not producer.is_op("Cast") and (known is None or not known.commutes):
            return None
        between.append(producer)
        value = producer.input(0)
    return None
