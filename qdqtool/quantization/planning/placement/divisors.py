"""Find products of two activations whose result becomes a divisor, as in attention without a Softmax.

Linear attention divides by the sum of its weights: ``q (k' v) / (q k' 1)``, whose factors a Relu has made. One scale
rounds small queries and keys to 0; where all of a row do, the quotient is a number over nearly 0. On an EfficientViT
with random weights, whose other layers were in int8, the outputs kept 1.9 dB with these products in int8 and 14.8 dB
with them in float. In float8, which keeps small numbers, it makes no difference (11.8 and 11.9 dB).
"""

from qdqtool.models import ops
from qdqtool.models.graph.index.view import NodeView, Value
from qdqtool.quantization.planning.placement.context import PlacementContext
from qdqtool.quantization.planning.placement.reason import Reason, on_request

MAX_STEPS = 16

_SUMS = ("Add", "Max", "ReduceSum", "Clip")
"""Operators that keep a small divisor from being 0, or sum it up."""


def made_divisor(node: NodeView, context: PlacementContext) -> Reason | None:
    """Return why a product of two activations stays float whose result becomes a divisor; None where it does not."""
    seen: set[Value] = set()
    waiting = [node.output()]
    for _ in range(MAX_STEPS):
        value = waiting.pop() if waiting else None
        if value is None or value in seen:
            continue
        seen.add(value)
        for use in value.uses:
            if use.node.is_op("Div") and use.index == 1:
                text = (
                    f"its result becomes the divisor of '{use.node.label}', where small numbers that round to 0 count"
                )
                return on_request("divisor", text)
            if _hands_on(use.node, context):
                waiting += [use.node.output(index) for index in range(len(use.node.proto.output))]
    return None


def _hands_on(node: NodeView, context: PlacementContext) -> bool:
    """Return whether the result of a node is small where that tensor is, and is no product with a stored weight."""
    product = ops.product(node)
    if product is None:
        return ops.moves_values(node) or node.is_op(*_SUMS)
    weight = node.input(product.weight_input)
    return product.two_activations and weight is not None and not context.is_constant(weight)
