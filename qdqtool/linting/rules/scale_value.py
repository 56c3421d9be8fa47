"""QP101: scales that are zero, negative or not finite."""

import numpy as np
import numpy.typing as npt

from qdqtool.linting.rules.fixes.scales import CLIPPED, DEAD, MIRRORED, ONE, negative_scale_fixes, zero_scale_fixes
from qdqtool.linting.rules.support.extents import of_values
from qdqtool.linting.rules.support.fix import Fix
from qdqtool.linting.rules.support.rule import CAUTION, REFUSED, SILENT, Fault, Faults, Impact, Rule, examples, impacts
from qdqtool.linting.rules.support.rule_context import RuleContext, as_reals
from qdqtool.linting.rules.support.words import kind, offenders, short
from qdqtool.models.graph.index.qdq import QdqNode
from qdqtool.models.targets import Target


class ScaleValue(Rule):
    """Every scale is finite and greater than zero.

    Why it matters: with a zero scale every value becomes the lowest or highest code. A negative scale flips signs. NaN
    and infinity spread through the network. onnx and ONNX Runtime never check the values. TensorRT checks only stored
    scales. A bad scale that a Cast, Mul or Reshape computes builds without a message. A negative scale of stored codes
    loses nothing, since the value is still code times scale. ONNX Runtime's quantizer writes many of them for int4
    blocks. ONNX Runtime accepts all negative scales of stored codes, TensorRT for RTX accepts them only for int4
    blocks. TensorRT documents only positive scales, and the source of its parser refuses others. A negative scale that
    loads is a warning.

    Bad: scale 0 for a channel whose weights are all zero; NaN from a calibrator that divided by zero.

    Good: any positive scale for such a channel, such as 1: its codes are 0 in any case. A fix can write such a scale. A
    fix can also negate negative scales together with their stored codes. There is no fix for infinite or NaN scales, or
    for a negative scale of a Q: the right scale cannot be inferred from them.
    """

    code = "QP101"
    name = "parameters.scale-value"
    affects = impacts(onnx=SILENT, ort_cpu=SILENT, tensorrt=REFUSED)
    remedy = "give the channel any positive finite scale (1 for a channel of zeros), or quantize again for this target"
    offers = (DEAD, ONE, MIRRORED, CLIPPED)
    VALID = examples("""
        positive scales, computed from constants:
            agraph (float[1,4] x) => (float[1,4] y)
            <float a = {0.5}, float b = {0.25}, int8 z = {0}> {
                s = Mul (a, b)
                $PAIR_TO_Y
            }
    """)
    INVALID = examples("""
        the second channel has scale 0:
            agraph (float[1,2] x) => (float[1,2] y)
            <float s = {0.1}, int8 z = {0}, int8[2,2] w = {1,2,3,4}, float[2] ws = {0.1, 0}, int8[2] wz = {0,0}> {
                $PAIR_TO_XD
                wd = DequantizeLinear <axis = 1> (w, ws, wz)
                y = MatMul (xd, wd)
            }
        a negative scale:
            agraph (float[1,4] x) => (float[1,4] y) <float s = {-0.1}, int8 z = {0}> {
                $PAIR_TO_Y
            }
        a negative scale of stored codes:
            agraph (float[1,2] x) => (float[1,2] y)
            <float s = {0.1}, int8 z = {0}, int8[2,2] w = {1,2,3,4}, float[2] ws = {0.1, -0.2}, int8[2] wz = {0,0}> {
                $PAIR_TO_XD
                wd = DequantizeLinear <axis = 1> (w, ws, wz)
                y = MatMul (xd, wd)
            }
        NaN:
            agraph (float[1,4] x) => (float[1,4] y) <float s = {nan}, int8 z = {0}> {
                $PAIR_TO_Y
            }
        infinity, which TensorRT lets pass:
            agraph (float[1,4] x) => (float[1,4] y) <float s = {inf}, int8 z = {0}> {
                $PAIR_TO_Y
            }
        zero behind a Mul, which TensorRT lets pass:
            agraph (float[1,4] x) => (float[1,4] y)
            <float a = {0.5}, float b = {0}, int8 z = {0}> {
                s = Mul (a, b)
                $PAIR_TO_Y
            }
    """)

    def check(self, context: RuleContext, target: Target) -> Faults:
        """Look at every constant scale, at each Q and DQ that uses it."""
        for entry in context.qdq.nodes:
            scale = context.array(entry.scale)
            if scale is None:
                continue
            assert entry.scale is not None
            bounds = context.bounds(entry.scale, scale)
            if bounds.low > 0 and np.isfinite(bounds.high):
                continue
            values = as_reals(scale)
            bad = ~(np.isfinite(values) & (values > 0))
            if _takes_negative(context, entry, values, target):
                continue
            found, expected = offenders(values, bad), "finite and greater than 0"
            message = f"scale '{entry.node.input_name(1)}' of this {short(entry)} is {found}"
            extent, impact = of_values(_classes(values[bad]), bad), _impact(context, entry, values, target)
            fixes = _fixes(context, entry, values)
            yield Fault(
                message,
                entry.node,
                entry.scale,
                found=found,
                expected=expected,
                extent=extent,
                impact=impact,
                fixes=fixes,
            )


def _fixes(context: RuleContext, entry: QdqNode, values: npt.NDArray[np.float64]) -> tuple[Fix, ...]:
    """Return the fixes that make the scales positive; empty if one is infinite or NaN."""
    if not np.all(np.isfinite(values)):
        return ()
    if np.all(values >= 0):
        return zero_scale_fixes(context, entry)
    return negative_scale_fixes(context, entry) if np.all(values != 0) else ()


def _classes(values: npt.NDArray[np.float64]) -> str:
    """Return the kinds of illegal values, in words. The size of a negative scale does not matter."""
    kinds = {
        "zero": values == 0,
        "negative": (values < 0) & np.isfinite(values),
        "infinite": np.isinf(values),
        "NaN": np.isnan(values),
    }
    return ", ".join(name for name, among in kinds.items() if among.any())


def _takes_negative(context: RuleContext, entry: QdqNode, values: npt.NDArray[np.float64], target: Target) -> bool:
    """Return whether the target accepts negative scales here: finite, nonzero block scales of stored codes."""
    in_blocks = values.ndim > 1 and bool(np.all(np.isfinite(values) & (values != 0)))
    return in_blocks and _is_stored(context, entry) and kind(entry.quantized_type) in target.negative_scale_types


def _is_stored(context: RuleContext, entry: QdqNode) -> bool:
    return not entry.is_quantize and context.qdq.quantizer_of(entry) is None


def _impact(context: RuleContext, entry: QdqNode, values: npt.NDArray[np.float64], target: Target) -> Impact | None:
    """Return the impact of the values on the target, or None for the rule's usual impact."""
    # A negative scale of stored codes is exact: a DQ returns code times scale. Only a Q changes signs. TensorRT's
    # parser does not check the scales of types for which it accepts negative block scales.
    stored = _is_stored(context, entry)
    unchecked = stored and kind(entry.quantized_type) in target.negative_scale_types
    if target.family == "tensorrt" and not unchecked and _parser_refuses(context, entry, values):
        return None
    return CAUTION if stored and bool(np.all(np.isfinite(values) & (values != 0))) else SILENT


def _parser_refuses(context: RuleContext, entry: QdqNode, values: npt.NDArray[np.float64]) -> bool:
    """Return whether TensorRT's parser refuses the values: it does not check every scale."""
    scale = entry.scale
    assert scale is not None
    # The parser checks initializers and Constant nodes, not the output of a Mul, Cast, Identity or Reshape. It does not
    # check a constant for which an earlier node has made a layer, such as a shared scale at its second use.
    producer = context.argument(scale).producer
    direct = producer is None or producer.is_op("Constant")
    first = scale.uses[0]
    as_parameter = context.qdq.get(first.node) is not None and first.index == 1
    # The test of the parser is `scale > 0`: infinity passes it, NaN does not.
    return direct and as_parameter and not bool(np.all(values > 0))
