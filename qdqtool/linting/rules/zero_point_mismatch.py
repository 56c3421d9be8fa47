"""QS003: zero points with a wrong type or shape."""

from math import prod

import numpy as np
import numpy.typing as npt
from onnx import TensorProto

from qdqtool.linting.rules.support.fix import Draft, Fix, Offer, UnfitError
from qdqtool.linting.rules.support.rule import REFUSED, SILENT, Fault, Faults, Rule, examples, impacts
from qdqtool.linting.rules.support.rule_context import RuleContext, as_reals
from qdqtool.linting.rules.support.words import dims, format_of, kind, short
from qdqtool.models.graph.index.qdq import QdqNode
from qdqtool.models.graph.index.types import static_shape
from qdqtool.models.targets import Target
from qdqtool.models.targets import get as get_target
from qdqtool.numerics.number_format import NumberFormat

SPREAD = Offer("safe", "repeats a zero point that is the same everywhere, so that it has the scale's shape")
CAST = Offer("unsafe", "stores the zero point in the quantized type, if this type contains its value")


class ZeroPointMismatch(Rule):
    """A zero point has the quantized type and the shape of the scale.

    Why it matters: the type of the zero point of a Q is the type of its codes. ONNX and ONNX Runtime refuse a zero
    point whose type differs from output_dtype, or from the codes of a DQ; TensorRT warns and computes int8. A zero
    point with another shape is refused only at run or build time.

    Bad: a scalar zero point with per-axis scales; an int32 zero point.

    Good: as many zero points as scales, of the quantized type.
    """

    code = "QS003"
    name = "spec.zero-point-mismatch"
    affects = impacts(onnx=REFUSED, ort_cpu=REFUSED, tensorrt=REFUSED)
    remedy = "give zero points the quantized type and the scale's shape"
    offers = (SPREAD, CAST)
    VALID = examples("""
        one zero point a channel; a scalar and a one-element tensor count as equal:
            agraph (float[1,2] x) => (float[1,2] y)
            <float[1] s = {0.1}, int8 z = {0}, int8[2,2] w = {1,2,3,4}, float[2] ws = {0.1, 0.2}, int8[2] wz = {0,0}> {
                $PAIR_TO_XD
                wd = DequantizeLinear <axis = 1> (w, ws, wz)
                y = MatMul (xd, wd)
            }
    """)
    INVALID = examples("""
        a scalar zero point beside two scales:
            agraph (float[1,2] x) => (float[1,2] y)
            <int8[2,2] w = {1,2,3,4}, float[2] ws = {0.1, 0.2}, int8 wz = {0}> {
                wd = DequantizeLinear <axis = 1> (w, ws, wz)
                y = MatMul (x, wd)
            }
        output_dtype says uint8, the zero point int8:
            agraph (float[1,4] x) => (float[1,4] y) <float s = {0.1}, int8 z = {0}> {
                q = QuantizeLinear <output_dtype = 2> (x, s, z)
                y = DequantizeLinear (q, s, z)
            }
        an int32 zero point, which TensorRT reads as int8:
            agraph (float[1,4] x) => (float[1,4] y) <float s = {0.1}, int32 z = {0}> {
                $PAIR_TO_Y
            }
        a DQ of int8 codes with a uint8 zero point:
            agraph (int8[1,4] x) => (float[1,4] y) <float s = {0.1}, uint8 z = {0}> {
                y = DequantizeLinear (x, s, z)
            }
    """)

    def check(self, context: RuleContext, target: Target) -> Faults:
        """Compare the type of each zero point with output_dtype or the data, and its shape with the scale."""
        for entry in context.qdq.nodes:
            if entry.zero_point is not None:
                yield from _type_faults(context, entry, target)
                yield from _shape_faults(context, entry, target)


def _type_faults(context: RuleContext, entry: QdqNode, target: Target) -> Faults:
    given = context.elem_type(entry.zero_point)
    if given is None:
        return
    stated = entry.output_dtype if entry.is_quantize else entry.quantized_type
    lenient = target.family == "tensorrt"
    if entry.is_quantize and kind(given) not in get_target("onnx").quantize_types:
        expected, impact = "a quantized type", SILENT if lenient else None
    elif stated and stated != given:
        expected, impact = kind(stated), SILENT if lenient and not entry.is_quantize else None
    else:
        return
    message = f"zero point '{entry.node.input_name(2)}' of this {short(entry)} has type {kind(given)}"
    fixes = _type_fixes(entry, stated)
    yield Fault(message, entry.node, entry.zero_point, found=kind(given), expected=expected, impact=impact, fixes=fixes)


def _type_fixes(entry: QdqNode, stated: int | None) -> tuple[Fix, ...]:
    legal = get_target("onnx").quantize_types
    onnx_type = stated if kind(stated) in legal else TensorProto.INT8 if entry.is_quantize else None
    if onnx_type is None:
        return ()
    return (CAST.fix(f"stores the zero point as {kind(onnx_type)}", _cast, entry, onnx_type),)


def _shape_faults(context: RuleContext, entry: QdqNode, target: Target) -> Faults:
    given, wanted = context.shape(entry.zero_point), entry.scale_shape
    if given is None or wanted is None or given == wanted:
        return
    zero, scale = static_shape(given), static_shape(wanted)
    # Every target accepts a scalar together with shape [1]. TensorRT compares only the number of elements.
    if zero is None or scale is None or {zero, scale} == {(), (1,)}:
        return
    if target.family == "tensorrt" and prod(zero) == prod(scale):
        return
    message = f"zero point '{entry.node.input_name(2)}' of this {short(entry)} has shape {dims(given)}"
    expected = f"the scale's shape {dims(wanted)}"
    fix = SPREAD.fix(f"repeats the zero point to {dims(wanted)}", _spread, entry, scale)
    yield Fault(message, entry.node, entry.zero_point, found=dims(given), expected=expected, fixes=(fix,))


def _spread(entry: QdqNode, shape: tuple[int, ...], draft: Draft) -> None:
    zero = draft.context.array(entry.zero_point)
    if zero is None or not zero.size or np.any(as_reals(zero) != as_reals(zero).flat[0]):
        raise UnfitError("the zero points differ, or are not constant")
    draft.set_constant(entry.node, 2, np.broadcast_to(zero.reshape(-1)[0], shape))


def _cast(entry: QdqNode, onnx_type: int, draft: Draft) -> None:
    zero, fmt = draft.context.array(entry.zero_point), format_of(onnx_type)
    assert fmt is not None
    if zero is None or fmt.kind != "integer" or not _holds(fmt, as_reals(zero)):
        raise UnfitError("the zero point is not constant, or not a value of that type")
    draft.set_constant(entry.node, 2, as_reals(zero).astype(fmt.dtype))


def _holds(fmt: NumberFormat, values: npt.NDArray[np.float64]) -> bool:
    return bool(np.all((values >= fmt.low) & (values <= fmt.high) & (values == np.round(values))))
