"""Tensors whose largest value is known before any data is seen: what a Softmax makes lies between 0 and 1.

In a floating-point format such a bound is the better scale. Its steps shrink with the values, so that nothing is lost
where the data stays far below the bound, and no calibration method can clip the one weight that matters. NVIDIA's own
tools fix it too, at 1/448 for fp8. Integers are another matter: of the weights of 512 tokens most round to 0 on a grid
that ends at 1, so int8 keeps the range that calibration finds, by the size of its errors and not by their number.
"""

from dataclasses import replace

from qdqtool import ops
from qdqtool.graph.index.model_index import ModelIndex
from qdqtool.graph.index.view import Value
from qdqtool.planning.placement.proposal import ProposedSlot

MAX_STEPS = 16
SOFTMAX_BOUND = 1.0


def with_bound(slot: ProposedSlot, index: ModelIndex) -> ProposedSlot:
    """The slot with the bound of its tensor, if it has one, or in an integer format marked as peaked."""
    value = index.value(slot.slot)
    if slot.kind == "weight" or not _comes_from_softmax(value):
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
