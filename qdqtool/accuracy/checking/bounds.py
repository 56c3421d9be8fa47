"""Find the tensors whose largest magnitude is known without data: those of a Sigmoid or Softmax end at 1.

All values of such a tensor may be near 0 on some data, as the scores of a detector are where there is nothing to find.
Then its pair makes 0 of every value, and the error is as large as the signal; and still nothing is wrong.
"""

from qdqtool.models import ops
from qdqtool.models.graph.index.model_index import ModelIndex
from qdqtool.models.graph.index.view import Value

MAX_STEPS = 16


def bound_of(index: ModelIndex, value: Value | None) -> float | None:
    """Return the largest magnitude that a tensor ever has, through pairs and operators that only move values.

    Returns:
        The bound of the operator that makes it; None where that has none.
    """
    for _ in range(MAX_STEPS):
        node = value.producer if value is not None else None
        if node is None:
            return None
        known = ops.traits(node)
        if known.bound is not None:
            return known.bound
        if index.qdq.get(node) is None and not (known.moves_values or known.passes_values):
            return None
        value = node.input(0)
    return None
