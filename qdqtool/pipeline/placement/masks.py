"""Masked attention scores: finite stand-ins for minus infinity, which no shared scale survives.

One value of -10000 in a tensor makes an int8 step of 79: every score becomes 0, and the language model forgets all it
knew. Such tensors are read by Softmax, so they stay float from the mask to there.
"""

from qdqtool import ops
from qdqtool.graph.view import NodeView, Value
from qdqtool.pipeline.placement.facts import Facts

MASKING = -1000.0
"""Constants at or below this, added to or selected into scores, stand for minus infinity. Exporters write -1e4 and
less; trained biases and position embeddings stay orders of magnitude away."""

MAX_STEPS = 16
_MASKING_OPS = ("Add", "Sub", "Where")
_KEEPING_OPS = ("Cast", "Clip", "Div", "Dropout", "Mul")


def feeds_softmax(node: NodeView) -> bool:
    """Whether ``node`` makes attention scores: its output reaches a Softmax through operators that keep its values."""
    value, steps = node.output(), 0
    while value is not None and steps < MAX_STEPS:
        if any(use.node.is_op("Softmax", "LogSoftmax") for use in value.uses):
            return True
        onward = next((use.node for use in value.uses if _keeps_values(use.node)), None)
        value, steps = (onward.output() if onward is not None else None), steps + 1
    return False


def carries_mask(value: Value | None, facts: Facts) -> bool:
    """Whether masking constants were put into ``value`` and not removed by a Softmax since."""
    for _ in range(MAX_STEPS):
        node = value.producer if value is not None else None
        if node is None:
            return False
        if node.is_op(*_MASKING_OPS) and adds_mask(node, facts):
            return True
        if not _keeps_values(node) and not node.is_op(*_MASKING_OPS):
            return False
        value = node.input(1 if node.op_type == "Where" else 0)
    return False


def adds_mask(node: NodeView, facts: Facts) -> bool:
    """Whether one operand is a constant that stands for minus infinity."""
    operands = (node.input(index) for index in range(len(node.proto.input)))
    minima = (facts.constant_minimum(value) for value in operands if value is not None and facts.is_float(value))
    return any(minimum is not None and minimum <= MASKING for minimum in minima)


def _keeps_values(node: NodeView) -> bool:
    family = ops.get(node)
    return node.is_op(*_KEEPING_OPS) or (family is not None and family.commutes)
