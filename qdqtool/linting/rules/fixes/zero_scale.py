"""Replace scales of 0 by 1."""

from functools import partial

import numpy as np
import numpy.typing as npt
import onnx

from qdqtool.linting.rules.fixes.code_group import CodeGroup
from qdqtool.linting.rules.fixes.stored import Stored, stored
from qdqtool.linting.rules.support.fix import Draft, Fix, Offer, UnfitError, shaped
from qdqtool.linting.rules.support.rule_context import Array, RuleContext, as_reals
from qdqtool.models.graph.index.qdq import QdqNode
from qdqtool.models.graph.io.tensors import read_array
from qdqtool.numerics.granularity import expand

DEAD = Offer("safe", "gives channels of a weight that are 0 throughout the scale 1, and codes of 0")
ONE = Offer("unsafe", "gives a scale of 0 the value 1: what was 0 whatever came in is rounded to whole numbers")


def zero_scale_fixes(context: RuleContext, entry: QdqNode) -> tuple[Fix, ...]:
    """Return the fix that sets scales of 0 to 1.

    Negative, infinite and NaN scales need a new calibration: the right value cannot be inferred from them.
    """
    if entry.is_quantize and entry.data is not None and context.is_constant(entry.data):
        # The DQ behind it has the fix, which sets the scales of both.
        return ()
    if not entry.is_quantize and context.qdq.is_weight(entry):
        return (Fix(DEAD, "gives channels of zeros the scale 1", partial(_dead_channels, entry)),)
    return (Fix(ONE, "gives the scale the value 1", partial(_one, entry)),)


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
    """Set the codes to 0 where the scale is 0: the product with the scale was always 0."""
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
        raise UnfitError("its scale is negative, infinite or no number: calibrate again")
    onnx_type = onnx.helper.np_dtype_to_tensor_dtype(scale.dtype)
    fixed = np.where(values == 0, 1, values).astype(scale.dtype)
    draft.set_input(entry.node, 1, draft.constant(entry.node.scope, entry.node.input_name(1), fixed, onnx_type))
