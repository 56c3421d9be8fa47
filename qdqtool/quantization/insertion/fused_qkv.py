"""Recognize a product that computes queries, keys and values of an attention and is split after it."""

from qdqtool.models import ops
from qdqtool.models.graph.index.constants import Constants
from qdqtool.models.graph.index.view import NodeView, Value

PARTS = 3
MAX_TENSORS = 128
"""Largest number of tensors to follow after one product; rotary positions and a cache need a fifth of it."""

_CARRYING_OPS = ("Add", "Cast", "Concat", "DequantizeLinear", "Div", "Mul", "Neg", "QuantizeLinear", "Sub")
"""Operators between the projections and the products of an attention, besides operators that only move values."""


def is_fused_qkv(product: NodeView, constants: Constants) -> bool:
    """Return whether ``product`` computes queries, keys and values together.

    This is the case if parts of its result reach both operands of a later product (queries and keys) and one operand of
    another product (values). There must be three parts of the same size: TensorRT rewrites no other split.
    """
    tensors, products = _behind(product.output())
    operands = [len(indices) for indices in products.values()]
    return max(operands, default=0) == 2 and len(operands) > 1 and any(_cuts(v, constants) for v in tensors)


def _behind(value: Value | None) -> tuple[dict[Value, None], dict[NodeView, set[int]]]:
    """Return the tensors computed from a tensor, and the next products that read them, with the input indices."""
    tensors: dict[Value, None] = {}
    products: dict[NodeView, set[int]] = {}
    waiting = [value] if value is not None else []
    while waiting and len(tensors) < MAX_TENSORS:
        value = waiting.pop()
        if value in tensors:
            continue
        tensors[value] = None
        for use in value.uses:
            product = ops.product(use.node)
            # Products of an attention multiply two activations of any rank, because they have an axis of heads.
            if product is not None and product.two_activations and product.activation_rank is None:
                products.setdefault(use.node, set()).add(use.index)
            elif use.node.is_op(*_CARRYING_OPS) or ops.moves_values(use.node):
                waiting += use.node.present_outputs
    return tensors, products


def _cuts(value: Value, constants: Constants) -> bool:
    """Return whether a tensor is divided into three: by a Split, or by one Slice or Gather for each part."""
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
