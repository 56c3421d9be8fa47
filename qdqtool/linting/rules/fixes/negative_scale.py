"""Make negative scales of stored codes positive."""

from functools import partial

import numpy as np
import numpy.typing as npt
import onnx

from qdqtool.linting.rules.fixes.stored import Stored, stored
from qdqtool.linting.rules.support.fix import Draft, Fix, Offer, UnfitError, shaped
from qdqtool.linting.rules.support.rule_context import Array, RuleContext, as_reals
from qdqtool.models.graph.index.qdq import QdqNode
from qdqtool.models.graph.io.tensors import read_array
from qdqtool.numerics.granularity import expand

MIRRORED = Offer("safe", "negates stored codes where their scale is negative, and the scale")
CLIPPED = Offer("unsafe", "the same where the lowest code occurs, such as -128: it becomes the highest, one step less")


def negative_scale_fixes(context: RuleContext, entry: QdqNode) -> tuple[Fix, ...]:
    """Return the fixes of a DQ whose scales are finite and some of them negative.

    A code times a scale is the negated code times the negated scale. Quantizers that give the largest magnitude of a
    channel the lowest code, as NNCF, write such scales.
    """
    if entry.is_quantize or entry.data is None or context.constants.direct(entry.data) is None:
        return ()
    return (
        Fix(MIRRORED, "negates codes and scales", partial(_write, entry, clip=False)),
        Fix(CLIPPED, "negates codes and scales, and clips the lowest code", partial(_write, entry, clip=True)),
    )


def _write(entry: QdqNode, draft: Draft, *, clip: bool) -> None:
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
    onnx_type = onnx.helper.np_dtype_to_tensor_dtype(given.scale.dtype)
    draft.set_input(entry.node, 1, draft.constant(scope, entry.node.input_name(1), np.abs(given.scale), onnx_type))


def _mirrored(constant: Stored, negative: npt.NDArray[np.bool_]) -> Array:
    codes = read_array(constant.context.model, constant.tensor)
    wide = codes.astype(np.int32)
    flipped = np.where(negative, np.minimum(-wide, int(constant.format.high)), wide)
    return flipped.astype(codes.dtype)
