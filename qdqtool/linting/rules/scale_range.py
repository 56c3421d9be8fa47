"""QP105: scales that are too small or too large for their type."""

import functools

import ml_dtypes
import numpy as np
import numpy.typing as npt
from onnx import TensorProto

from qdqtool.linting.rules.support.extents import octaves, of_values
from qdqtool.linting.rules.support.rule import SILENT, SUSPECT, Fault, Faults, Rule, examples, impacts
from qdqtool.linting.rules.support.rule_context import Array, RuleContext, as_reals
from qdqtool.linting.rules.support.words import format_of, offenders, short
from qdqtool.models.graph.index.qdq import QdqNode
from qdqtool.models.targets import Target

FIRST_OPSET_WITH_FLOAT16 = 19
FLOATS = frozenset(map(np.dtype, (np.float32, np.float16, ml_dtypes.bfloat16, np.float64)))


class ScaleRange(Rule):
    """A scale is a normal number of its type, and the largest code times the scale is finite.

    Why it matters: a scale below the smallest normal number has little precision, its reciprocal overflows, and a GPU
    may flush it to zero. With a huge scale every value becomes code 0 or dequantizes to infinity. Such scales load
    everywhere. There is no fix: the file does not contain the right scale.

    Bad: a float16 scale of 1e-7, or a float32 scale of 1e38.

    Good: float32 scales for float16 activations (allowed from opset 23), or a new calibration.
    """

    code = "QP105"
    name = "parameters.scale-range"
    affects = impacts(onnx=SUSPECT, ort_cpu=SUSPECT, tensorrt=SUSPECT)
    remedy = "store the scale in float32, or calibrate again: such small or large scales are rarely intended"
    VALID = examples("""
        an ordinary scale:
            agraph (float[1,4] x) => (float[1,4] y) <float s = {0.02}, int8 z = {0}> {
                $PAIR_TO_Y
            }
        the smallest normal float16, 6.1e-5 (bits 1024):
            agraph (float16[1,4] x) => (float16[1,4] y) <float16 s = {1024}, int8 z = {0}> {
                $PAIR_TO_Y
            }
    """)
    INVALID = examples("""
        a subnormal scale:
            agraph (float[1,4] x) => (float[1,4] y) <float s = {1e-40}, int8 z = {0}> {
                $PAIR_TO_Y
            }
        127 times the scale is infinite:
            agraph (float[1,4] x) => (float[1,4] y) <float s = {1e38}, int8 z = {0}> {
                $PAIR_TO_Y
            }
        a subnormal float16 (bits 2, 1.2e-7):
            agraph (float16[1,4] x) => (float16[1,4] y) <float16 s = {2}, int8 z = {0}> {
                $PAIR_TO_Y
            }
    """)

    def check(self, context: RuleContext, target: Target) -> Faults:
        """Look at every finite positive scale, in the type in which it is used."""
        for entry in context.qdq.nodes:
            scale = context.array(entry.scale)
            if scale is None or scale.dtype not in FLOATS:
                continue
            yield from _tiny(context, entry, scale, target)
            yield from _huge(context, entry, scale)


def _tiny(context: RuleContext, entry: QdqNode, scale: Array, target: Target) -> Faults:
    dtype = scale.dtype
    if target.family == "tensorrt" and _cast_to_float16(context, entry):
        dtype = np.dtype(np.float16)
    smallest, _ = _limits(dtype)
    assert entry.scale is not None
    if context.bounds(entry.scale, scale).low >= smallest:
        return
    values = as_reals(scale)
    bad = (values > 0) & (values < smallest)
    if bad.any():
        with np.errstate(under="ignore"):
            vanishes = bool(np.any(values[bad].astype(dtype).astype(np.float64) == 0))
        found, expected = offenders(values, bad), f"at least {smallest:.3g}"
        message = (
            f"scale '{entry.node.input_name(1)}' of this {short(entry)} is {found}, "
            f"{'which becomes 0 in' if vanishes else 'below the smallest normal number of'} {dtype}"
        )
        extent = of_values("tiny", bad, octaves(values, smallest))
        impact = SILENT if vanishes else None
        yield Fault(message, entry.node, entry.scale, found=found, expected=expected, extent=extent, impact=impact)


def _huge(context: RuleContext, entry: QdqNode, scale: Array) -> Faults:
    fmt = format_of(entry.quantized_type)
    _, largest = _limits(scale.dtype)
    assert entry.scale is not None
    if fmt is None or context.bounds(entry.scale, scale).high * fmt.high <= largest:
        return
    values = as_reals(scale)
    bad = np.isfinite(values) & (values * fmt.high > largest)
    if bad.any():
        message = (
            f"scale '{entry.node.input_name(1)}' of this {short(entry)} is {offenders(values, bad)}: "
            f"code {fmt.high:g} dequantizes to infinity in {scale.dtype}"
        )
        expected = f"at most {largest / fmt.high:.3g}"
        extent = of_values("huge", bad, octaves(values, largest / fmt.high))
        yield Fault(message, entry.node, entry.scale, found=offenders(values, bad), expected=expected, extent=extent)


def _cast_to_float16(context: RuleContext, entry: QdqNode) -> bool:
    """Return whether TensorRT uses the scale in float16."""
    # Below opset 19, the parser first checks that the scale is positive, then casts it to the type of the data. For
    # float16 data, 1e-9 becomes 0 without a message.
    return (
        entry.node.scope.opset < FIRST_OPSET_WITH_FLOAT16
        and entry.is_quantize
        and context.elem_type(entry.data) == TensorProto.FLOAT16
    )


@functools.lru_cache(maxsize=16)
def _limits(dtype: npt.DTypeLike) -> tuple[float, float]:
    """Return the smallest normal and the largest number of a float type."""
    # NumPy's finfo does not know bfloat16.
    info = ml_dtypes.finfo(dtype)  # type: ignore[no-untyped-call]
    return float(info.smallest_normal), float(info.max)
