"""Change the float type of a scale, in a Q or DQ and in the other half of its pair."""

from functools import partial

import numpy as np
import onnx

from qdqtool.linting.rules.support.fix import Draft, Fix, Offer, UnfitError
from qdqtool.linting.rules.support.rule_context import Array, as_reals
from qdqtool.linting.rules.support.words import kind
from qdqtool.models.graph.index.qdq import QdqNode

RETYPED = Offer(
    "unsafe", "stores the scale in the type of the float side, and the same value in the other half of the pair"
)

FLOATS: dict[str | None, int] = {
    "float32": onnx.TensorProto.FLOAT,
    "float16": onnx.TensorProto.FLOAT16,
    "bfloat16": onnx.TensorProto.BFLOAT16,
}
FLOAT_TYPES = frozenset(FLOATS.values())


def scale_type_fixes(entry: QdqNode, wanted: str | None) -> tuple[Fix, ...]:
    """Return the fix that stores the scale as ``wanted``; none where that is no float type."""
    onnx_type = FLOATS.get(wanted)
    if onnx_type is None:
        return ()
    return (Fix(RETYPED, f"stores the scale as {wanted}", partial(_write, entry, onnx_type)),)


def _write(entry: QdqNode, onnx_type: int, draft: Draft) -> None:
    context = draft.context
    scale = context.array(entry.scale)
    if scale is None:
        raise UnfitError("its scale is not constant")
    given = as_reals(scale)
    with np.errstate(all="ignore"):
        rounded = scale.astype(onnx.helper.tensor_dtype_to_np_dtype(onnx_type))
    values = as_reals(rounded)
    if np.any((given > 0) & (values <= 0)) or not np.all(np.isfinite(values)):
        raise UnfitError(f"its scale is no number of {kind(onnx_type)}")
    _store(draft, entry, rounded, onnx_type)
    # The other half gets the rounded value as well, since a DQ has to undo its Q.
    for other in _other_half(draft, entry):
        kept = context.elem_type(other.scale)
        if kept in FLOAT_TYPES:
            _store(draft, other, rounded.astype(onnx.helper.tensor_dtype_to_np_dtype(kept)), kept)


def _other_half(draft: Draft, entry: QdqNode) -> list[QdqNode]:
    """Return the DQs of a Q, or the Q of a DQ with its other DQs."""
    quantizer = entry if entry.is_quantize else draft.context.qdq.quantizer_of(entry)
    if quantizer is None:
        return []
    return [other for other in (quantizer, *draft.context.qdq.readers(quantizer)) if other is not entry]


def _store(draft: Draft, entry: QdqNode, scale: Array, onnx_type: int) -> None:
    draft.set_input(entry.node, 1, draft.constant(entry.node.scope, entry.node.input_name(1), scale, onnx_type))
