"""Follow an operand of a Conv, Gemm or MatMul back to its DQ.

After some operators (:class:`qdqtool.models.ops.CodePath`) a Conv or MatMul still reads codes. After all other
operators it reads floats.
"""

from collections.abc import Callable, Hashable, Iterable, Iterator
from dataclasses import dataclass, replace
from typing import TypeVar

from qdqtool.models import ops
from qdqtool.models.graph.index.model_index import ModelIndex
from qdqtool.models.graph.index.qdq import QdqNode, same_constant
from qdqtool.models.graph.index.view import NodeView, Value
from qdqtool.models.graph.io.tensors import element_count
from qdqtool.models.ops import CodePath, ProductOp

MAX_STEPS = 64
# Every input of a Concat is followed, so nested Concats multiply the work.
MAX_JOINS = 3


Place = TypeVar("Place", bound=Hashable)


def reachable(start: Iterable[Place | None], following: Callable[[Place], Iterable[Place | None]]) -> Iterator[Place]:
    """Yield every place that can be reached from ``start`` in any number of steps, each once; None is skipped."""
    pending, seen = list(start), set[Place]()
    while pending:
        current = pending.pop()
        if current is not None and current not in seen:
            seen.add(current)
            yield current
            pending += following(current)


@dataclass(frozen=True, slots=True, eq=False)
class Operand:
    """The DQ that an operand comes from.

    Attributes:
        dequantize: The DQ; if codes of several DQs are joined, the DQ of the first input.
        between: The operators between the DQ and the operand, the last one first. All of them pass codes on.
    """

    dequantize: QdqNode
    between: tuple[NodeView, ...]

    def axis_here(self, axis: int, rank: int) -> int | None:
        """Return the axis of the operand that corresponds to ``axis`` of the DQ's output, or None if it is unknown."""
        for node in reversed(self.between):
            if ops.traits(node).codes in {CodePath.POINTWISE, CodePath.SCALED}:
                continue
            behind = ops.axis_behind(node, axis, rank)
            if behind is None:
                return None
            axis = behind
        return axis


@dataclass(frozen=True, slots=True, eq=False)
class Product:
    """A Conv, ConvTranspose, Gemm or MatMul with the DQs that its two operands come from.

    Attributes:
        node: The node.
        op: The description of its operator.
        left: The DQ of the first operand; None if this operand is not quantized.
        right: The DQ of the weight operand, which may be an activation; None if this operand is not quantized.
    """

    node: NodeView
    op: ProductOp
    left: Operand | None
    right: Operand | None

    @property
    def weight_index(self) -> int:
        """The index of the weight operand."""
        return self.op.weight_input


def operand(walk: "Walk", value: Value | None) -> Operand | None:
    """Return the DQ whose codes reach ``value``, directly or through operators that keep codes."""
    between: list[NodeView] = []
    for _ in range(MAX_STEPS):
        entry = walk.index.qdq.dequantizer_of(value)
        if entry is not None:
            return Operand(entry, tuple(between))
        producer = value.producer if value is not None else None
        if producer is None:
            return None
        between.append(producer)
        if ops.traits(producer).codes is CodePath.JOINED:
            first = _joined(walk, producer)
            return Operand(first.dequantize, (*between, *first.between)) if first is not None else None
        value = _carried(walk, producer)
    return None


@dataclass(frozen=True, slots=True)
class Walk:
    """The state of a walk from an operand back to its DQ.

    Attributes:
        index: The index of the model.
        padded: Whether the product is a convolution, which pads with zeros itself.
        joins: How many nested Concats may still be followed.
    """

    index: ModelIndex
    padded: bool = False
    joins: int = MAX_JOINS


def _carried(walk: Walk, node: NodeView) -> Value | None:
    """Return the input whose codes pass through ``node``, or None if ``node`` computes with them."""
    match ops.traits(node).codes:
        case CodePath.MOVED | CodePath.POINTWISE | CodePath.SELECTED:
            return node.input(0)
        case CodePath.PADDED:
            zeros = node.attribute("mode", b"constant") == b"constant"
            return node.input(0) if not zeros or (walk.padded and _pads_zeros(walk, node)) else None
        case CodePath.SCALED if _is_one_number(walk, node.input(1)):
            return node.input(0)
        case CodePath.SCALED if node.is_op("Mul") and _is_one_number(walk, node.input(0)):
            return node.input(1)
        case _:
            return None


def _joined(walk: Walk, node: NodeView) -> Operand | None:
    """Return the operand of the first input if all inputs come from DQs with the same scale, else None."""
    if not walk.joins:
        return None
    inner = replace(walk, joins=walk.joins - 1)
    first = operand(inner, node.input(0))
    if first is None:
        return None
    for index in range(1, len(node.proto.input)):
        other = operand(inner, node.input(index))
        if other is None or not same_constant(first.dequantize.scale, other.dequantize.scale, walk.index.constants):
            return None
    return first


def _is_one_number(walk: Walk, value: Value | None) -> bool:
    stored = walk.index.constants.direct(value) if value is not None else None
    return stored is not None and element_count(stored) == 1


def _pads_zeros(walk: Walk, node: NodeView) -> bool:
    value = node.input(2)
    if value is None:
        # Below opset 11, the padding value is an attribute.
        return not node.attribute("value", 0)
    fill = walk.index.constants.readable(value) if _is_one_number(walk, value) else None
    return fill is not None and bool(fill.item() == 0)
