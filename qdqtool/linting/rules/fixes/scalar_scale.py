"""Replace one-element scales of any rank by scalars."""

from functools import partial

import onnx

from qdqtool.linting.rules.support.fix import Draft, Fix, Offer, UnfitError
from qdqtool.linting.rules.support.rule_context import Array, RuleContext
from qdqtool.models.graph.index.qdq import QdqNode
from qdqtool.models.graph.index.view import Value

SCALAR = Offer("safe", "makes a one-element scale, and its zero point, a scalar")


def scalar_fixes(entry: QdqNode) -> tuple[Fix, ...]:
    """Return the fix that makes a one-element scale a scalar; none for other scales."""
    shape = entry.scale_shape
    if not shape or any(dim != 1 for dim in shape):
        return ()
    return (Fix(SCALAR, "makes the one-element scale a scalar", partial(_write, entry)),)


def _write(entry: QdqNode, draft: Draft) -> None:
    for index, value in ((1, entry.scale), (2, entry.zero_point)):
        if value is not None:
            array = _one(draft.context, value)
            onnx_type = onnx.helper.np_dtype_to_tensor_dtype(array.dtype)
            draft.set_input(entry.node, index, draft.constant(entry.node.scope, value.name, array, onnx_type))
    if entry.block_size:
        draft.set_attribute(entry.node, "block_size", None)


def _one(context: RuleContext, value: Value) -> Array:
    array = context.array(value)
    if array is None or array.size != 1:
        raise UnfitError("its scale or zero point is not constant, or has more than one element")
    return array.reshape(())
