"""Remove the operator between a Q and its DQ: the Clip of a narrow range (Brevitas), or a Cast (PyTorch FX)."""

import math

import ml_dtypes
import numpy as np
import onnx

from qdqtool.linting.rules.fixes.stored import Parameters, parameters, require_quantizable
from qdqtool.linting.rules.support.fix import Draft, Fix, Offer, UnfitError, shaped
from qdqtool.linting.rules.support.rule_context import Array, RuleContext, as_reals
from qdqtool.linting.rules.support.words import FLOAT_TYPES, format_of
from qdqtool.models.graph.index.qdq import QdqNode
from qdqtool.models.graph.index.view import NodeView, Value
from qdqtool.models.graph.io.tensors import read_array
from qdqtool.models.transforms.restored_bounds import clipping_edits
from qdqtool.numerics.affine import quantize

# The lowest code of int8 is -128, and a Clip to -7 made -7 of it. ONNX Runtime gives NaN the lowest code.
CLIPPED = Offer(
    "safe",
    "removes a Clip of codes: clips the values in front of the Q, or stores the clipped codes",
    is_open_for_nan=True,
)


def clip_fixes(context: RuleContext, clip: NodeView) -> tuple[Fix, ...]:
    """Return the fix that removes a Clip of the codes of a Q; empty for other nodes."""
    quantizer = context.qdq.maker(clip.input(0)) if clip.is_op("Clip") else None
    if quantizer is None or not quantizer.is_quantize or quantizer.data is None:
        return ()
    if context.constants.direct(quantizer.data) is not None:
        return (CLIPPED.fix("stores the codes that the Clip makes", _store_clipped, quantizer, clip),)
    return (CLIPPED.fix("clips the values in front of the Q instead of its codes", _clip_data, quantizer, clip),)


def _store_clipped(quantizer: QdqNode, clip: NodeView, draft: Draft) -> None:
    context, output = draft.context, _clipped(draft.context, clip)
    assert quantizer.data is not None
    tensor, fmt = context.constants.direct(quantizer.data), format_of(quantizer.quantized_type)
    if tensor is None or fmt is None:
        raise UnfitError("its type is unknown")
    given, (low, high), model = parameters(context, quantizer), _bounds(context, clip), context.model
    require_quantizable(given, fmt, tensor)

    def make() -> Array:
        codes = quantize(read_array(model, tensor), given.scale, fmt, given.granularity, given.zero_point)
        # If the lower bound is above the upper one, ONNX returns the upper one, as this order does.
        clipped: Array = np.minimum(np.maximum(codes, low), high).astype(fmt.dtype)
        return clipped

    name = draft.weights(clip.scope, f"{quantizer.data.name}_quantized", shaped(tensor, fmt.onnx_type), make)
    draft.replace(output, name)


def _clip_data(quantizer: QdqNode, clip: NodeView, draft: Draft) -> None:
    """Clip the values at ``(bound - zero point) * scale``: the Q turns these limits into exactly the bounds."""
    context, codes, output = draft.context, quantizer.output, _clipped(draft.context, clip)
    if codes is None or codes.is_output or len(codes.uses) != 1 or clip.scope is not quantizer.node.scope:
        raise UnfitError("another node reads the codes of the Q")
    draft.require_visible(codes, (use.node for use in output.uses))
    elem_type = context.elem_type(quantizer.data)
    if elem_type not in FLOAT_TYPES:
        raise UnfitError("the type of the data is unknown or not a float type")
    source = quantizer.node.input_name(0)
    made = draft.namer.tensor(f"{source}_Clip_Output")
    limits = _limits(parameters(context, quantizer), _bounds(context, clip), elem_type)
    draft.edits += clipping_edits(draft.namer, quantizer.node.scope, (source, made), limits, elem_type)
    draft.set_input(quantizer.node, 0, made)
    draft.replace(output, codes.name)


def _limits(given: Parameters, bounds: tuple[float, float], elem_type: int) -> tuple[float, float]:
    """Return the values that the two bounds represent; infinite if a bound is absent."""
    if given.scale.size != 1:
        raise UnfitError("the Q has several scales")
    zero = 0.0 if given.zero_point is None else float(as_reals(given.zero_point).reshape(()))
    scale, (low, high) = float(as_reals(given.scale).reshape(())), bounds
    if not (scale > 0 and math.isfinite(scale) and low <= high):
        raise UnfitError("its scale is not positive, or the lower bound of the Clip is above the upper one")
    limits = (low - zero) * scale, (high - zero) * scale
    dtype = onnx.helper.tensor_dtype_to_np_dtype(elem_type)
    largest = float(ml_dtypes.finfo(dtype).max)  # type: ignore[no-untyped-call]
    if any(math.isfinite(limit) and abs(limit) > largest for limit in limits):
        raise UnfitError("the bounds as real numbers are too large for the type of the data")
    return limits


def _clipped(context: RuleContext, clip: NodeView) -> Value:
    """Return the codes that a Clip makes; only DQs may read them."""
    output = clip.output()
    if output is None or output.is_output or not output.uses:
        raise UnfitError("the clipped codes are an output, or nothing reads them")
    readers = [(context.qdq.get(use.node), use.index) for use in output.uses]
    if not all(entry is not None and not entry.is_quantize and index == 0 for entry, index in readers):
        raise UnfitError("a node other than a DQ reads the clipped codes")
    return output


def _bounds(context: RuleContext, clip: NodeView) -> tuple[float, float]:
    """Return the bounds of a Clip of codes; infinite for an absent bound."""
    found = [-math.inf, math.inf]
    for index in (1, 2):
        if clip.input_name(index):
            array = context.array(clip.input(index))
            if array is None or array.size != 1:
                raise UnfitError("the bounds of the Clip are not constant")
            found[index - 1] = float(as_reals(array).reshape(()))
    return found[0], found[1]


SAME_TYPE = Offer("safe", "removes a Cast to the type that the codes have already")


def cast_fixes(context: RuleContext, cast: NodeView) -> tuple[Fix, ...]:
    """Return the fix that removes a Cast to the type of its input; empty for other nodes."""
    source, output = cast.input(0), cast.output()
    if not cast.is_op("Cast") or source is None or output is None:
        return ()
    if context.elem_type(source) is None or context.elem_type(source) != cast.attribute("to"):
        return ()
    return (SAME_TYPE.fix("removes the Cast, which changes no type", _take_out, source, output),)


def _take_out(source: Value, output: Value, draft: Draft) -> None:
    draft.require_visible(source, (use.node for use in output.uses))
    draft.replace(output, source.name)
