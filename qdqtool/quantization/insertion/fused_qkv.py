"""Recognize one product for the queries, keys and values of an attention, which are split behind it."""

from collections.abc import Iterator
from dataclasses import dataclass, field

from qdqtool.models import ops
from qdqtool.models.graph.index.constants import Constants
from qdqtool.models.graph.index.view import NodeView, Value

PARTS = 3
MAX_TENSORS = 128
"""The most tensors that are followed behind one product; rotary positions and a cache need a fifth of them."""

_CARRYING_OPS = ("Add", "Cast", "Concat", "DequantizeLinear", "Div", "Mul", "Neg", "QuantizeLinear", "Sub")
"""Operators between projections and products of an attention, besides those that only move values."""


def is_fused_qkv(product: NodeView, constants: Constants) -> bool:
    """Return whether ``product`` computes queries, keys and values together.

    It does if both operands of a later product (queries and keys), and one operand of another (values), come from parts
    of its result. There must be three parts of the same size: TensorRT changes no others.
    """
    behind = _Behind()
    behind.follow(product.output())
    operands = [len(indices) for indices in behind.operands.values()]
    return max(operands, default=0) == 2 and len(operands) > 1 and any(_cuts(v, constants) for v in behind.tensors)


@dataclass(slots=True)
class _Behind:
    """The tensors that are computed from a tensor, up to the next products.

    Attributes:
        tensors: The tensor and those computed from it, in the order in which they were found.
        operands: The products that read them, with the inputs.
    """

    tensors: dict[Value, None] = field(default_factory=dict)
    operands: dict[NodeView, set[int]] = field(default_factory=dict)

    def follow(self, value: Value | None) -> None:
        waiting = [value] if value is not None else []
        while waiting and len(self.tensors) < MAX_TENSORS:
            value = waiting.pop()
            if value not in self.tensors:
                self.tensors[value] = None
                waiting.extend(self._behind(value))

    def _behind(self, value: Value) -> Iterator[Value]:
        for use in value.uses:
            if _multiplies_heads(use.node):
                self.operands.setdefault(use.node, set()).add(use.index)
            elif _carries(use.node):
                yield from use.node.present_outputs


def _multiplies_heads(node: NodeView) -> bool:
    """Return whether a node multiplies two activations of any rank, as an attention does with an axis of heads."""
    product = ops.product(node)
    return product is not None and product.two_activations and product.activation_rank is None


def _carries(node: NodeView) -> bool:
    return node.is_op(*_CARRYING_OPS) or ops.moves_values(node)


def _cuts(value: Value, constants: Constants) -> bool:
    """Return whether a tensor is divided into three: by a Split, or by a Slice or Gather for each part."""
    readers = [use.node for use in value.uses if use.index == 0]
    if sum(node.is_op("Gather", "Slice") for node in readers) == PARTS:
        return True
    return any(node.is_op("Split") and _is_even(node, constants) for node in readers)


def _is_even(split: NodeView, constants: Constants) -> bool:
    if len(split.proto.output) != PARTS:
        return False
    sizes, given = split.attribute("split"), split.input(1)
    if given is not None:
        array = constants.array(given)
        sizes = array.tolist() if array is not None else ()
    return sizes is None or len(set(sizes)) == 1
