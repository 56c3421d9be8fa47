"""Bound tensors whose largest value is known without data: the output of a Softmax lies between 0 and 1.

For a floating-point format such a bound is the better scale: its steps shrink with the values, so nothing is lost where
the data stays far below the bound, and no calibration method can clip the one attention weight that matters. NVIDIA's
Model Optimizer fixes it too, at 1/448 for fp8. For integers it is not: of the attention weights of 512 tokens, most
would round to 0 on a grid that ends at 1. So int8 keeps the range that calibration finds, by a method that
weighs the size of errors and not their number.
"""

from dataclasses import replace

from qdqtool.models import ops
from qdqtool.models.graph.index.model_index import ModelIndex
from qdqtool.models.graph.index.view import Value
from qdqtool.quantization.planning.placement.proposal import ProposedSlot

MAX_STEPS = 16
SOFTMAX_BOUND = 1.0


def with_bound(slot: ProposedSlot, index: ModelIndex) -> ProposedSlot:
    """Return the slot with the bound of its tensor, if it has one; in an integer format, marked as peaked."""
    value = index.value(slot.slot)
    if not _comes_from_softmax(value):
        return slot
    if slot.scheme.format.kind == "integer":
        return replace(slot, peaked=True)
    return replace(slot, bound=SOFTMAX_BOUND, reason=f"{slot.reason}; a Softmax makes it, so it ends at 1")


def _comes_from_softmax(value: Value | None) -> bool:
    for _ in range(MAX_STEPS):
        node = value.producer if value is not None else None
        if node is None or node.is_op("Softmax"):
            return node is not None
        if not (ops.moves_values(node) or ops.traits(node).passes_values):
            return False
        value = node.input(0)
    return False
