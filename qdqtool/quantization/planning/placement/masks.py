"""Find masked attention scores: they have finite numbers for minus infinity, which one scale cannot represent.

One value of -10000 in a tensor makes an int8 step of 79, so every score becomes 0 and the output of a language model is
useless. A Softmax reads such tensors, so they stay float from the mask to the Softmax.
"""

from qdqtool.models import ops
from qdqtool.models.graph.index.view import NodeView, Value
from qdqtool.quantization.planning.placement.context import PlacementContext
from qdqtool.quantization.planning.placement.reason import Reason

MASKING = -1000.0
"""Constants at or below this that are added to scores, or selected into them, represent minus infinity. Exporters write
-1e4 and less; trained biases and position embeddings are smaller by orders of magnitude."""

MAX_STEPS = 16
MAX_JOINS = 2
"""The most Adds between a mask and the scores that are searched; each doubles the number of paths."""

# How exporters write masks: each of these has a part of its own in the pattern.
_MASKING_OPS = ("Add", "Max", "Min", "Sub", "Where")
_SCALING_OPS = ("Clip", "Div", "Mul")


def feeds_softmax(node: NodeView) -> bool:
    """Return whether ``node`` produces attention scores: a Softmax reads them, directly or scaled or moved."""
    value, steps = node.output(), 0
    while value is not None and steps < MAX_STEPS:
        if any(ops.traits(use.node).softmax for use in value.uses):
            return True
        onward = next((use.node for use in value.uses if _keeps_values(use.node)), None)
        value, steps = (onward.output() if onward is not None else None), steps + 1
    return False


def carries_mask(value: Value | None, context: PlacementContext) -> bool:
    """Return whether ``value`` has masking constants that no Softmax has removed."""
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
    """Return why a tensor with masking constants gets no pair; None where it has none."""
    if not carries_mask(value, context):
        return None
    return Reason("attention-mask", f"'{value.name}' carries an attention mask, which one scale would not survive")


def adds_mask(node: NodeView, context: PlacementContext) -> bool:
    """Return whether an operand represents minus infinity: a constant, or what is computed from a mask of 0 and 1."""
    operands = (node.input(index) for index in range(len(node.proto.input)))
    return any(value is not None and context.is_float(value) and _is_mask(value, context) for value in operands)


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
    """Return whether a Where selects a masking constant, or a Mul has one, or a huge positive one and a flag."""
    operands = [value for index in range(len(node.proto.input)) if (value := node.input(index)) is not None]
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
