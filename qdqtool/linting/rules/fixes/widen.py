"""Store 4-bit codes as int8."""

from functools import partial

import numpy as np
from onnx import TensorProto

from qdqtool.linting.rules.fixes.stored import stored
from qdqtool.linting.rules.support.fix import Draft, Fix, Offer, shaped
from qdqtool.linting.rules.support.words import kind
from qdqtool.models.graph.index.qdq import QdqNode

WIDER = Offer("safe", "stores the same 4-bit codes as int8, with the same scale")


def wider_fixes(entry: QdqNode) -> tuple[Fix, ...]:
    """Return the fix that stores int4 or uint4 codes of a DQ as int8: exactly the same values, in twice the space."""
    if entry.is_quantize or kind(entry.quantized_type) not in {"int4", "uint4"}:
        return ()
    return (Fix(WIDER, "stores the same codes as int8", partial(_widen, entry)),)


def _widen(entry: QdqNode, draft: Draft) -> None:
    constant = stored(draft.context, entry)
    like = shaped(constant.tensor, TensorProto.INT8)
    name = draft.weights(entry.node.scope, constant.tensor.name, like, lambda: constant.codes().astype(np.int8))
    draft.set_input(entry.node, 0, name)
    zero = draft.context.array(entry.zero_point)
    if zero is not None:
        base, widened = entry.node.input_name(2), zero.astype(np.int8)
        draft.set_input(entry.node, 2, draft.constant(entry.node.scope, base, widened, TensorProto.INT8))
