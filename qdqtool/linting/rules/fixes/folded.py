"""Replace computed scales and zero points by initializers."""

from functools import partial

import onnx

from qdqtool.linting.rules.support.fix import Draft, Fix, Offer, UnfitError
from qdqtool.linting.rules.support.rule_context import RuleContext
from qdqtool.models.graph.index.qdq import QdqNode

STORED = Offer("safe", "stores the value that the constant operators compute")


def folded_fixes(context: RuleContext, entry: QdqNode, index: int) -> tuple[Fix, ...]:
    """Return the fix that stores input ``index`` of a Q or DQ; none where it does not fold to a constant."""
    value = entry.node.input(index)
    if value is None or not context.constants.is_constant(value):
        return ()
    return (Fix(STORED, f"stores '{value.name}' as an initializer", partial(_store, entry, index)),)


def _store(entry: QdqNode, index: int, draft: Draft) -> None:
    value = entry.node.input(index)
    assert value is not None
    array = draft.context.array(value)
    if array is None:
        raise UnfitError("it does not fold")
    onnx_type = onnx.helper.np_dtype_to_tensor_dtype(array.dtype)
    name = draft.constant(value.scope, value.name, array, onnx_type)
    for use in value.uses:
        if use.index == index and draft.context.qdq.get(use.node) is not None:
            draft.set_input(use.node, index, name)
