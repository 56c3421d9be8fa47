"""Fixes of scales and zero points: wrong types, shapes and signs, scales of 0, and computed parameters."""

import numpy as np
import numpy.typing as npt
import onnx

from qdqtool.linting.rules.fixes.code_group import CodeGroup
from qdqtool.linting.rules.fixes.stored import Stored, stored
from qdqtool.linting.rules.support.fix import Draft, Fix, Offer, UnfitError, shaped
from qdqtool.linting.rules.support.rule_context import Array, RuleContext, as_reals
from qdqtool.linting.rules.support.words import FLOAT_TYPES, kind
from qdqtool.models.graph.index.qdq import QdqNode
from qdqtool.models.graph.index.view import Value
from qdqtool.models.graph.io.tensors import read_array
from qdqtool.numerics.granularity import expand

STORED = Offer("safe", "stores the value that the constant operators compute")


def folded_fixes(context: RuleContext, entry: QdqNode, index: int) -> tuple[Fix, ...]:
    """Return the fix that stores input ``index`` of a Q or DQ; empty if it does not fold to a constant."""
    value = entry.node.input(index)
    if value is None or not context.constants.is_constant(value):
        return ()
    return (STORED.fix(f"stores '{value.name}' as an initializer", _store_computed, entry, index),)


def _store_computed(entry: QdqNode, index: int, draft: Draft) -> None:
    value = entry.node.input(index)
    assert value is not None
    array = draft.context.array(value)
    if array is None:
        raise UnfitError("its value cannot be computed from constants")
    name = draft.constant(value.scope, value.name, array)
    for use in value.uses:
        if use.index == index and draft.context.qdq.get(use.node) is not None:
            draft.set_input(use.node, index, name)


SCALAR = Offer("safe", "makes a one-element scale, and its zero point, a scalar")


def scalar_fixes(entry: QdqNode) -> tuple[Fix, ...]:
    """Return the fix that makes a one-element scale a scalar; empty for other scales."""
    shape = entry.scale_shape
    if not shape or any(dim != 1 for dim in shape):
        return ()
    return (SCALAR.fix("makes the one-element scale a scalar", _make_scalar, entry),)


def _make_scalar(entry: QdqNode, draft: Draft) -> None:
    for index, value in ((1, entry.scale), (2, entry.zero_point)):
        if value is not None:
            draft.set_constant(entry.node, index, _one_element(draft.context, value))
    if entry.block_size:
        draft.set_attribute(entry.node, "block_size", None)


def _one_element(context: RuleContext, value: Value) -> Array:
    array = context.array(value)
    if array is None or array.size != 1:
        raise UnfitError("its scale or zero point is not constant, or has more than one element")
    return array.reshape(())


RETYPED = Offer(
    "unsafe", "stores the scale in the type of the float tensor, and the same value in the other half of the pair"
)


def scale_type_fixes(entry: QdqNode, wanted: str | None) -> tuple[Fix, ...]:
    """Return the fix that stores the scale as type ``wanted``; empty if that is not a float type."""
    onnx_type = next((each for each in FLOAT_TYPES if kind(each) == wanted), None)
    if onnx_type is None:
        return ()
    return (RETYPED.fix(f"stores the scale as {wanted}", _retype, entry, onnx_type),)


def _retype(entry: QdqNode, onnx_type: int, draft: Draft) -> None:
    context = draft.context
    scale = context.array(entry.scale)
    if scale is None:
        raise UnfitError("its scale is not constant")
    given = as_reals(scale)
    with np.errstate(all="ignore"):
        rounded = scale.astype(onnx.helper.tensor_dtype_to_np_dtype(onnx_type))
    values = as_reals(rounded)
    if np.any((given > 0) & (values <= 0)) or not np.all(np.isfinite(values)):
        raise UnfitError(f"its scale is too small or too large for {kind(onnx_type)}")
    draft.set_constant(entry.node, 1, rounded)
    # The other half of the pair gets the rounded value too: a DQ has to undo its Q.
    for other in _other_half(draft, entry):
        kept = context.elem_type(other.scale)
        if kept in FLOAT_TYPES:
            draft.set_constant(other.node, 1, rounded.astype(onnx.helper.tensor_dtype_to_np_dtype(kept)))


def _other_half(draft: Draft, entry: QdqNode) -> list[QdqNode]:
    """Return the DQs of a Q; for a DQ, its Q and the other DQs of that Q."""
    quantizer = entry if entry.is_quantize else draft.context.qdq.quantizer_of(entry)
    if quantizer is None:
        return []
    return [other for other in (quantizer, *draft.context.qdq.readers(quantizer)) if other is not entry]


MIRRORED = Offer("safe", "negates negative scales of stored codes, together with the codes")
CLIPPED = Offer("unsafe", "also negates the lowest code, such as -128, which becomes 127: an error of one step")


def negative_scale_fixes(context: RuleContext, entry: QdqNode) -> tuple[Fix, ...]:
    """Return the fixes of a DQ whose scales are finite, but partly negative.

    A code times a scale equals the negated code times the negated scale. Some quantizers, such as NNCF, write negative
    scales so that the largest magnitude of a channel gets the lowest code.
    """
    if entry.is_quantize or entry.data is None or context.constants.direct(entry.data) is None:
        return ()
    return (
        MIRRORED.fix("negates codes and scales", _mirror, entry, False),
        CLIPPED.fix("negates codes and scales, and clips the lowest code", _mirror, entry, True),
    )


def _mirror(entry: QdqNode, clip: bool, draft: Draft) -> None:
    constant = stored(draft.context, entry)
    given = constant.parameters
    if constant.quantizer is not None or constant.format.kind != "integer" or constant.format.low >= 0:
        raise UnfitError("its codes are not stored as signed integers")
    if given.zero_point is not None and np.any(as_reals(given.zero_point)):
        raise UnfitError("it has zero points")
    negative = np.broadcast_to(np.asarray(expand(given.scale, constant.shape, given.granularity)) < 0, constant.shape)
    lowest = as_reals(read_array(draft.context.model, constant.tensor)) == constant.format.low
    if not clip and np.any(lowest & negative):
        raise UnfitError(f"the code {constant.format.low} occurs, which has no positive counterpart")
    scope, tensor = entry.node.scope, constant.tensor
    name = draft.weights(scope, tensor.name, shaped(tensor, tensor.data_type), lambda: _mirrored(constant, negative))
    draft.set_input(entry.node, 0, name)
    draft.set_constant(entry.node, 1, np.abs(given.scale))


def _mirrored(constant: Stored, negative: npt.NDArray[np.bool_]) -> Array:
    codes = read_array(constant.context.model, constant.tensor)
    wide = codes.astype(np.int32)
    flipped = np.where(negative, np.minimum(-wide, int(constant.format.high)), wide)
    return flipped.astype(codes.dtype)


DEAD = Offer("safe", "sets the scale to 1 and the codes to 0 in channels of a weight with only zeros")
ONE = Offer("unsafe", "replaces a scale of 0 by 1: a tensor that was always 0 is then rounded to integers")


def zero_scale_fixes(context: RuleContext, entry: QdqNode) -> tuple[Fix, ...]:
    """Return the fix that sets scales of 0 to 1.

    Negative, infinite and NaN scales need a new calibration: the right value cannot be inferred from them.
    """
    if entry.is_quantize and entry.data is not None and context.is_constant(entry.data):
        # The DQ that reads this Q has the fix: it sets the scales of both.
        return ()
    if not entry.is_quantize and context.qdq.is_weight(entry):
        return (DEAD.fix("gives channels of zeros the scale 1", _dead_channels, entry),)
    return (ONE.fix("gives the scale the value 1", _one, entry),)


def _dead_channels(entry: QdqNode, draft: Draft) -> None:
    constant = stored(draft.context, entry)
    if constant.quantizer is None:
        _silence(constant, draft)
    else:
        weight = as_reals(read_array(draft.context.model, constant.tensor))
        if np.any(weight[_spread_zeros(constant)] != 0):
            raise UnfitError("the weight is not 0 where its scale is")
        _write(draft, constant.quantizer)
    _write(draft, entry)


def _silence(constant: Stored, draft: Draft) -> None:
    """Set the codes to 0 where the scale is 0: their dequantized values were 0 too."""
    if constant.parameters.zero_point is not None and np.any(as_reals(constant.parameters.zero_point)):
        raise UnfitError("it has zero points")
    zeros, model, tensor = _spread_zeros(constant), draft.context.model, constant.tensor

    def make() -> Array:
        codes = read_array(model, tensor).copy()
        codes[zeros] = 0
        return codes

    like = shaped(tensor, tensor.data_type)
    draft.set_input(constant.entry.node, 0, draft.weights(constant.entry.node.scope, constant.tensor.name, like, make))


def _spread_zeros(constant: Stored) -> npt.NDArray[np.bool_]:
    given = constant.parameters
    zeros: npt.NDArray[np.bool_] = np.asarray(expand(given.scale, constant.shape, given.granularity)) == 0
    return np.broadcast_to(zeros, constant.shape)


def _one(entry: QdqNode, draft: Draft) -> None:
    group = CodeGroup.of(draft.context, entry)
    group.shared()
    for each in group.entries:
        _write(draft, each)


def _write(draft: Draft, entry: QdqNode) -> None:
    scale = draft.context.array(entry.scale)
    assert scale is not None
    values = as_reals(scale)
    if not np.all(np.isfinite(values) & (values >= 0)):
        raise UnfitError("its scale is negative, infinite or NaN: calibrate again")
    draft.set_constant(entry.node, 1, np.where(values == 0, 1, values).astype(scale.dtype))
