"""QP102: zero points other than 0, for targets that have only symmetric kernels."""

from collections.abc import Callable

import numpy as np

from qdqtool.linting.rules.fixes.symmetric import EXACT, SYMMETRIC, symmetric_fixes
from qdqtool.linting.rules.fixes.unquantize import FLOAT
from qdqtool.linting.rules.support.extents import of_values
from qdqtool.linting.rules.support.rule import REFUSED, SILENT, Fault, Faults, Rule, examples, impacts
from qdqtool.linting.rules.support.rule_context import MAX_STEPS, RuleContext, as_reals
from qdqtool.linting.rules.support.words import kind, kind_of_data, offenders, short
from qdqtool.models import ops
from qdqtool.models.graph.index.qdq import QdqNode
from qdqtool.models.graph.index.view import Value
from qdqtool.models.targets import Target


class ZeroPointValue(Rule):
    """Zero points are 0 if the target quantizes symmetrically.

    Why it matters: GPU kernels compute codes times scale, without an offset, so TensorRT refuses any other zero point.
    This is the most frequent reason why a model from a CPU quantizer does not load: ONNX Runtime's quantizer makes
    asymmetric activations by default. TensorRT ignores a zero point of fp8 without a message.

    Bad: int8 activations with zero point -12; uint8 with zero point 128.

    Good: symmetric quantization. Zero point 128 of uint8 is an exact case: subtract 128 from the codes to get int8 with
    zero point 0. Other zero points need a new scale: max(abs(low), abs(high)) / 127.
    """

    code = "QP102"
    name = "parameters.zero-point-value"
    affects = impacts(onnx=SILENT, ort_cpu=REFUSED, tensorrt=REFUSED)
    remedy = (
        "quantize symmetrically (in ONNX Runtime: ActivationSymmetric and WeightSymmetric, type QInt8); if inputs or"
        " outputs are codes, convert to float ones (in TensorFlow Lite: inference_input_type, inference_output_type)"
    )
    offers = (EXACT, SYMMETRIC, FLOAT)
    VALID = examples("""
        int8, zero point 0:
            $ONE_PAIR
    """)
    INVALID = examples("""
        an asymmetric int8 activation [tensorrt, tensorrt-rtx]:
            agraph (float[1,4] x) => (float[1,4] y) <float s = {0.1}, int8 z = {-12}> {
                $PAIR_TO_Y
            }
        one channel of a weight [tensorrt, tensorrt-rtx]:
            agraph (float[1,2] x) => (float[1,2] y)
            <int8[2,2] w = {1,2,3,4}, float[2] ws = {0.1, 0.2}, int8[2] wz = {0, 5}> {
                wd = DequantizeLinear <axis = 1> (w, ws, wz)
                y = MatMul (x, wd)
            }
        fp8 with zero point 1 (bits 56):
            agraph (float[1,4] x) => (float[1,4] y) <float s = {0.1}, float8e4m3fn z = {56}> {
                $PAIR_TO_Y
            }
    """)

    def check(self, context: RuleContext, target: Target) -> Faults:
        """Look at every constant zero point."""
        for entry in context.qdq.nodes:
            zero = context.array(entry.zero_point)
            quantized = kind(entry.quantized_type)
            if zero is None or not _must_be_zero(entry, target):
                continue
            assert entry.zero_point is not None
            bounds = context.bounds(entry.zero_point, zero)
            if bounds.low == bounds.high == 0 or not zero.size:
                continue
            values = as_reals(zero)
            # The comparison is also True for NaN.
            bad = values != 0
            # TensorRT ignores every zero point of fp8. ONNX Runtime 1.31 ignores it for a Q; for a DQ the run fails.
            ignored = quantized.startswith("float8") and (target.family == "tensorrt" or entry.is_quantize)
            found, where = offenders(values, bad), _at_the_boundary(entry)
            message = f"zero point '{entry.node.input_name(2)}' of this {short(entry)} is {found}{where}"
            extent, expected = of_values(quantized, bad, np.abs(values)), f"0 for {quantized}"
            impact = SILENT if ignored else None
            fixes = symmetric_fixes(context, entry)
            yield Fault(
                message,
                entry.node,
                entry.zero_point,
                found=found,
                expected=expected,
                extent=extent,
                impact=impact,
                fixes=fixes,
                cause=f"asymmetric {kind_of_data(entry, context.qdq)}",
            )


def _at_the_boundary(entry: QdqNode) -> str:
    """Return words if the codes are an input or output of the model, so that no fix may change them; else empty."""
    end = _followed(entry.output, _behind) if entry.is_quantize else _followed(entry.data, _in_front)
    if end is None or end.scope.path or end.initializer is not None:
        return ""
    side = "output" if entry.is_quantize else "input"
    at_the_end = end.is_output if entry.is_quantize else end.is_input
    return f", and its codes are the {side} '{end.name}' of the model" if at_the_end else ""


def _followed(value: Value | None, step: Callable[[Value], Value | None]) -> Value | None:
    """Return the last tensor with the same codes, which may have been moved."""
    for _ in range(MAX_STEPS):
        following = step(value) if value is not None else None
        if following is None:
            break
        value = following
    return value


def _behind(value: Value) -> Value | None:
    reader = value.uses[0].node if len(value.uses) == 1 and not value.is_output else None
    return reader.output() if reader is not None and ops.moves_codes(reader) else None


def _in_front(value: Value) -> Value | None:
    maker = value.producer
    return maker.input(0) if maker is not None and ops.moves_codes(maker) else None


def _must_be_zero(entry: QdqNode, target: Target) -> bool:
    # TensorRT reads a zero point of a Q of a type such as uint8 or int32 as int8, with a warning.
    any_type = target.family == "tensorrt" and entry.is_quantize
    return any_type or kind(entry.quantized_type) in target.symmetric_types
