"""Find masked attention scores: finite numbers represent minus infinity, and one scale cannot represent them.

One value of -10000 in a tensor makes an int8 step of 79; every score becomes 0, and the output of a language model is
useless. A Softmax reads such tensors, so they stay float from the mask to the Softmax.

Linear attention divides by the sum of its weights: ``q (k' v) / (q k' 1)``, where a Relu makes the factors. One scale
rounds small queries and keys to 0. If all values of a row become 0, the divisor is nearly 0. On an EfficientViT with
random weights and int8 in all other layers, the outputs had 1.9 dB with these products in int8, and 14.8 dB with them
in float. In float8, which represents small numbers, it makes no difference (11.8 and 11.9 dB).

The output of a Softmax has the bound 1. For a floating-point format this bound is the better scale. The steps of such a
format shrink with the values, so values far below the bound keep their precision. With a fixed scale, no calibration
method can clip a rare large attention weight. NVIDIA's Model Optimizer also fixes this scale, at 1/448 for fp8. For
integers the bound is worse: most attention weights of 512 tokens would round to 0 on a grid that ends at 1. So int8
keeps the calibrated range, from a method that weighs the size of errors and not their number.
"""

from dataclasses import replace

from qdqtool.models import ops
from qdqtool.models.graph.index.model_index import ModelIndex
from qdqtool.models.graph.index.view import NodeView, Value
from qdqtool.quantization.planning.placement.context import PlacementContext
from qdqtool.quantization.planning.placement.proposal import ProposedSlot, Reason, on_request

MAX_STEPS = 16
"""Largest number of nodes that a search follows."""

_SUMS = ("Add", "Max", "ReduceSum", "Clip")
"""Operators that sum up a divisor or keep it from being 0."""


def made_divisor(node: NodeView, context: PlacementContext) -> Reason | None:
    """Return the reason to keep a product of two activations in float if its result becomes a divisor; else None."""
    seen: set[Value] = set()
    waiting = [node.output()]
    for _ in range(MAX_STEPS):
        value = waiting.pop() if waiting else None
        if value is None or value in seen:
            continue
        seen.add(value)
        for use in value.uses:
            if use.node.is_op("Div") and use.index == 1:
                text = f"its result becomes the divisor of '{use.node.label}', and small divisors must not round to 0"
                return on_request("divisor", text)
            if _hands_on(use.node, context):
                waiting += use.node.outputs
    return None


def _hands_on(node: NodeView, context: PlacementContext) -> bool:
    """Return whether a small input of a node makes a small result; False for a product with a stored weight."""
    product = ops.product(node)
    if product is None:
        return ops.moves_values(node) or node.is_op(*_SUMS)
    weight = node.input(product.weight_input)
    return product.two_activations and weight is not None and not context.is_constant(weight)


SOFTMAX_BOUND = 1.0


def with_bound(slot: ProposedSlot, index: ModelIndex) -> ProposedSlot:
    """Return the slot with the bound of its tensor, if any; in an integer format, mark it as peaked instead."""
    value = index.value(slot.slot)
    if not _comes_from_softmax(value):
        return slot
    if slot.scheme.format.kind == "integer":
        return replace(slot, peaked=True)
    return replace(
        slot, bound=SOFTMAX_BOUND, reason=f"{slot.reason}; it comes from a Softmax, so its largest value is 1"
    )


def _comes_from_softmax(value: Value | None) -> bool:
    for _ in range(MAX_STEPS):
        node = value.producer if value is not None else None
        if node is None or node.is_op("Softmax"):
            return node is not None
        if not (ops.moves_values(node) or ops.traits(node).passes_values):
            return False
        value = node.input(0)
    return False


MASKING = -1000.0
"""Constants at or below this that are added to scores, or selected into them, represent minus infinity. Exporters write
-1e4 and less; trained biases and position embeddings are smaller by orders of magnitude.
"""

MAX_JOINS = 2
"""Largest number of Adds that a search passes between a mask and the scores; each one doubles the number of paths."""

# The operators with which exporters write masks; each has its own part in the pattern.
_MASKING_OPS = ("Add", "Max", "Min", "Sub", "Where")
_SCALING_OPS = ("Clip", "Div", "Mul")


def feeds_softmax(node: NodeView) -> bool:
    """Return whether ``node`` produces attention scores: a Softmax reads them, also after scaling or moving."""
    value, steps = node.output(), 0
    while value is not None and steps < MAX_STEPS:
        if any(ops.traits(use.node).softmax for use in value.uses):
            return True
        onward = next((use.node for use in value.uses if _keeps_values(use.node)), None)
        value, steps = (onward.output() if onward is not None else None), steps + 1
    return False


def carries_mask(value: Value | None, context: PlacementContext) -> bool:
    """Return whether ``value`` contains masking constants that no Softmax has removed."""
    for _ in range(MAX_STEPS):
        node = value.producer if value is not None else None
        if node is None:
            return False
        if node.is_op(*_MASKING_OPS) and adds_mask(node, context):
            return True
        if not _keeps_values(node) and not node.is_op(*_MASKING_OPS):
            return False
        # Input 0 of a Where is the condition.
        value = node.input(1 if node.op_type == "Where" else 0)
    return False


def carried_mask(value: Value, context: PlacementContext) -> Reason | None:
    """Return why a tensor with masking constants gets no pair, or None if it has no such constants."""
    if not carries_mask(value, context):
        return None
    return Reason(
        "attention-mask", f"'{value.name}' has an attention mask, and one scale would round its other values to 0"
    )


def adds_mask(node: NodeView, context: PlacementContext) -> bool:
    """Return whether an operand represents minus infinity: a constant, or a tensor computed from a mask of 0 and 1."""
    return any(context.is_float(value) and _is_mask(value, context) for value in node.present_inputs)


def _is_mask(value: Value, context: PlacementContext, joins: int = MAX_JOINS) -> bool:
    """Return whether a tensor is a masking constant, ``(1 - mask) * -1e4`` or ``Where(mask, 0, -inf)``, also moved."""
    for _ in range(MAX_STEPS):
        minimum = context.index.constants.minimum(value)
        node = value.producer
        if minimum is not None or node is None:
            return minimum is not None and minimum <= MASKING
        if node.is_op("Mul", "Where"):
            return _masks_with_constant(node, context)
        # Exporters add a position bias to the mask.
        if node.is_op("Add"):
            operands = (node.input(0), node.input(1)) if joins else ()
            return any(operand is not None and _is_mask(operand, context, joins - 1) for operand in operands)
        onward = node.input(0)
        if onward is None or not (node.is_op("Cast", "Trilu") or ops.moves_values(node)):
            return False
        value = onward
    return False


def _masks_with_constant(node: NodeView, context: PlacementContext) -> bool:
    """Return whether a Where or Mul has a masking constant, or a Mul has a huge positive constant and a flag."""
    operands = node.present_inputs
    minima = [context.index.constants.minimum(value) for value in operands if context.is_float(value)]
    largest = max((abs(minimum) for minimum in minima if minimum is not None), default=0.0)
    below = any(minimum is not None and minimum <= MASKING for minimum in minima)
    return below or (
        node.op_type == "Mul" and largest >= -MASKING and any(_is_flag(value, context) for value in operands)
    )


def _is_flag(value: Value, context: PlacementContext) -> bool:
    """Return whether a tensor is ``1 - mask`` or ``mask - 1``."""
    node = value.producer
    if node is None or not node.is_op("Sub"):
        return False
    sides = (node.input(0), node.input(1))
    return any(side is not None and context.index.constants.minimum(side) == 1.0 for side in sides)


def _keeps_values(node: NodeView) -> bool:
    return node.is_op(*_SCALING_OPS) or ops.moves_values(node) or ops.traits(node).passes_values
