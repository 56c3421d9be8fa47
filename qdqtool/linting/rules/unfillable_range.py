"""QN504: ranges of activations that are too wide for their values, or too narrow."""

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from qdqtool.linting.findings import Extent
from qdqtool.linting.rules.support.rule import CAUTION, SILENT, SUSPECT, Fault, Faults, Impact, Rule, examples, impacts
from qdqtool.linting.rules.support.rule_context import RuleContext
from qdqtool.linting.rules.support.spans import Spans
from qdqtool.linting.rules.support.words import format_of, number
from qdqtool.models import ops
from qdqtool.models.graph.index.qdq import QdqNode
from qdqtool.models.graph.index.view import Value
from qdqtool.models.ops import Span
from qdqtool.models.targets import Target

MOST_UNUSED = 8.0
"""Largest ratio of the width of a range to the width of the values, in the widest channel. The ratio was at most 2.8
for all 9,671 ranges of 95 models that qdqtool and ONNX Runtime quantized (int8, uint8, fp8; four calibration methods).
For values of one sign, a symmetric format alone makes a ratio of 2."""
FEWEST_CODES = 4.0
"""If each channel can use fewer codes than this, the tensor has lost its information."""

LEAST_HELD = 0.25
"""Smallest share of the values of a Sigmoid, Tanh or similar function that a range holds. It was at least 0.48 for 68
of 98 ranges that qdqtool and ONNX Runtime chose, also with percentiles. The other 30 are ranges of a detector that saw
no object."""
LEAST_HELD_OF_MANY = 1 / 64
"""The same for a Softmax, whose values may all be small, and for a Clip, whose bounds may not be reached."""
LEAST_POSITIVE = 0.6
"""A tensor needs codes for positive values if they can reach this share of the magnitude of its negative values. The
share was 0.54 for a detector's scores that were negative in all samples."""
WIDEST_CLIP = 16.0
"""A Clip to a wider interval is no activation function, but protects against overflow."""


class UnfillableRange(Rule):
    """The range of a Q fits the values that can reach it.

    Why it matters: a scale in the wrong unit, or of another tensor, loads and runs everywhere, but the model computes
    nonsense. The rule computes, without data, which values can reach each Q. It uses interval arithmetic on the range
    of the DQ before it, the weights and the biases, through Relu, Add, Concat, pools and similar operators. If these
    values span only a small part of the range, the scale of the Q is too large or that of the DQ too small. It is an
    error if every channel can use fewer than four codes of an integer range.

    A range can also be too narrow. It is a warning if it holds less than a quarter of the values of a Sigmoid, Tanh,
    Erf or HardSigmoid (1/64 for a Softmax or a Clip to a narrow interval). It is also a warning if the range has no
    codes for positive values, and these can be as large as the negative ones. A range without codes for negative values
    is legal: ONNX Runtime's quantizer removes a Relu in front of such a Q. And it is a warning if a Concat joins a
    Sigmoid or similar function with such large values that fewer than four codes are left for the function: boxes in
    pixels and scores need pairs of their own.

    Other faults are found only with data. Examples are a wrong range for an input of the model or after a
    LayerNormalization, and a range that clips most values of a product. The gate `activations` of `check` compares the
    range of each Q with the values in the samples. With `--baseline`, the gate `weights` finds wrong scales of weights:
    it compares each stored weight with the weight of the float model.

    Bad: a scale of 33 after a Relu whose values are at most 2; a scale of 0.0001 after a Tanh; int8 with zero point 127
    after a Relu; one pair for boxes in pixels and scores.

    Good: max(abs(x)) / 127, where x are the values of the tensor.
    """

    code = "QN504"
    name = "numbers.unfillable-range"
    affects = impacts(onnx=SUSPECT, ort_cpu=SUSPECT, tensorrt=SUSPECT)
    remedy = (
        "calibrate again, or find the scale that is in another unit: the gate `activations` of `check` measures every "
        "Q, and with `--baseline` the gate `weights` finds a wrong scale of stored weights"
    )
    VALID = examples("""
        a product that can fill the range behind it:
            agraph (float[1,2] x) => (float[1,2] y) <float s = {0.01}, float t = {0.02}, int8 z = {0},
             float[2,2] w = {1, -1, 0.5, 0.25}> {
                q = QuantizeLinear (x, s, z)
                d = DequantizeLinear (q, s, z)
                m = MatMul (d, w)
                r = Relu (m)
                p = QuantizeLinear (r, t, z)
                y = DequantizeLinear (p, t, z)
            }
        a Sigmoid whose values are at most 0.5:
            agraph (float[1,4] x) => (float[1,4] y) <float s = {0.004}, int8 z = {0}> {
                a = Sigmoid (x)
                q = QuantizeLinear (a, s, z)
                y = DequantizeLinear (q, s, z)
            }
        a Q that replaces a Relu [onnx, ort-cpu]:
            agraph (float[1,2] x) => (float[1,2] y) <float s = {0.01}, int8 z = {0}, int8 low = {-128},
             float[2,2] w = {1, -1, 0.5, 0.25}> {
                $PAIR_TO_XD
                m = MatMul (xd, w)
                p = QuantizeLinear (m, s, low)
                y = DequantizeLinear (p, s, low)
            }
    """)
    INVALID = examples("""
        a scale 1000 times too large:
            agraph (float[1,2] x) => (float[1,2] y) <float s = {0.01}, float t = {20}, int8 z = {0},
             float[2,2] w = {1, -1, 0.5, 0.25}> {
                q = QuantizeLinear (x, s, z)
                d = DequantizeLinear (q, s, z)
                m = MatMul (d, w)
                r = Relu (m)
                p = QuantizeLinear (r, t, z)
                y = DequantizeLinear (p, t, z)
            }
        or the one in front too small:
            agraph (float[1,2] x) => (float[1,2] y) <float s = {0.001}, float t = {0.02}, int8 z = {0},
             float[2,2] w = {1, -1, 0.5, 0.25}> {
                q = QuantizeLinear (x, s, z)
                d = DequantizeLinear (q, s, z)
                m = MatMul (d, w)
                p = QuantizeLinear (m, t, z)
                y = DequantizeLinear (p, t, z)
            }
        a range that clips nearly all values of a Tanh:
            agraph (float[1,4] x) => (float[1,4] y) <float s = {0.0001}, int8 z = {0}> {
                a = Tanh (x)
                q = QuantizeLinear (a, s, z)
                y = DequantizeLinear (q, s, z)
            }
        one pair for boxes and scores:
            agraph (float[1,4] x) => (float[1,8] y) <float s = {2.5}, int8 z = {0}> {
                a = Sigmoid (x)
                b = Concat <axis = 1> (x, a)
                q = QuantizeLinear (b, s, z)
                y = DequantizeLinear (q, s, z)
            }
        no codes for the values of a Relu [onnx, ort-cpu]:
            agraph (float[1,4] x) => (float[1,4] y) <float s = {0.01}, uint8 z = {255}> {
                a = Relu (x)
                q = QuantizeLinear (a, s, z)
                y = DequantizeLinear (q, s, z)
            }
    """)

    def check(self, context: RuleContext, target: Target) -> Faults:
        """Compare the range of each Q with the values that can reach it."""
        entries = [*_activations(context)]
        if not entries:
            return
        spans = Spans(context)
        compared = [found for entry in entries if (found := _compared(spans, entry)) is not None]
        judged: Mapping[QdqNode, _Compared] = {found.entry: found for found in compared}
        for entry in entries:
            narrow, found = _too_narrow(context, spans, entry) or _lost(context, spans, entry), judged.get(entry)
            if narrow is not None:
                yield narrow
            elif found is not None and found.times > MOST_UNUSED and not _is_filled_beside(context, entry, judged):
                yield _fault(context, found)


def _activations(context: RuleContext) -> Iterator[QdqNode]:
    """Yield every Q whose data is computed; rule QN502 (weights) checks the others."""
    for entry in context.qdq.quantizers():
        if entry.data is not None and not context.constants.is_constant(entry.data):
            yield entry


@dataclass(frozen=True, slots=True)
class _Compared:
    """A Q, its range, the values that can reach it, and the ratio of the two widths."""

    entry: QdqNode
    range: Span
    values: Span
    times: float


def _compared(spans: Spans, entry: QdqNode) -> _Compared | None:
    values, given = spans.of(entry.data), spans.range_of(entry)
    if values is None or given is None or not 0 < values.width < math.inf:
        return None
    # Values are known only for constants, which are not activations, and for outputs of nodes.
    assert entry.data is not None
    assert entry.data.producer is not None
    if ops.traits(entry.data.producer).bound is not None:
        # After a Sigmoid or Softmax, tools use the full range of its possible values, not the values of this model.
        values = Span(values.low, values.high, source=values.source)
    return _Compared(entry, given, values, given.width / values.width)


def _too_narrow(context: RuleContext, spans: Spans, entry: QdqNode) -> Fault | None:
    """Return the fault of a Q whose range clips most of the values that can reach it."""
    values, given = spans.of(entry.data), spans.range_of(entry)
    if values is None or given is None or values.width <= 0:
        return None
    held = min(values.high, given.high) - max(values.low, given.low)
    # Negative values may be lost on purpose, in place of a Relu. Positive values never are.
    is_lost = given.high <= 0 and values.high >= -LEAST_POSITIVE * values.low and values.low > -math.inf
    least = _least_held(entry, values)
    if held > 0 and not is_lost and (not least or held >= least * values.width):
        return None
    possible, scale = _ends(values), _scale(context, entry)
    message = f"the range of this Q is {_ends(given)}, but its input can be {possible}: most values are clipped"
    extent = Extent("narrow", degree=-math.log2(scale))
    found = f"scale {scale:.3g}, codes for {_ends(given)}"
    return Fault(message, entry.node, entry.data, found=found, expected=f"codes for {possible}", extent=extent)


def _lost(context: RuleContext, spans: Spans, entry: QdqNode) -> Fault | None:
    """Return the fault of a Q whose steps are as wide as all values of one of the tensors that a Concat joined."""
    fmt, given = format_of(entry.quantized_type), spans.range_of(entry)
    if given is None:
        return None
    assert fmt is not None
    scale = _scale(context, entry)
    for part in _joined(context, entry) if fmt.kind == "integer" else ():
        values = spans.of(part)
        if values is not None and values.high - values.low < FEWEST_CODES * scale:
            message = (
                f"'{part.name}' is {_ends(values)}, and joined with values for the range {_ends(given)}: fewer than "
                f"{FEWEST_CODES:g} codes are left for it"
            )
            found, expected = f"scale {scale:.3g}", f"another pair for '{part.name}'"
            extent = Extent("joined", degree=scale)
            return Fault(message, entry.node, entry.data, found=found, expected=expected, extent=extent)
    return None


def _joined(context: RuleContext, entry: QdqNode) -> Iterator[Value]:
    """Yield the tensors with a known bound, such as a Sigmoid's, that a Concat joins to the input of a Q."""
    source = _source(entry.data)
    joined = source.producer if source is not None else None
    for value in joined.inputs if joined is not None and joined.is_op("Concat") else ():
        behind = context.qdq.quantizer_of(pair) if (pair := context.qdq.dequantizer_of(value)) is not None else None
        part = _source(behind.data if behind is not None else value)
        if part is not None and part.producer is not None and ops.traits(part.producer).bound is not None:
            yield part


def _source(value: Value | None) -> Value | None:
    """Return the tensor that the values of another one were moved from."""
    return [*ops.moved_from(value)][-1] if value is not None else None


def _least_held(entry: QdqNode, values: Span) -> float:
    """Return the smallest share of the possible values that a range must hold; 0 if the operator sets no bounds."""
    source = _source(entry.data)
    assert source is not None
    node = source.producer
    if node is None:
        return 0.0
    if ops.traits(node).softmax or (node.is_op("Clip") and values.high - values.low <= WIDEST_CLIP):
        return LEAST_HELD_OF_MANY
    return LEAST_HELD if ops.traits(node).bound is not None else 0.0


def _is_filled_beside(context: RuleContext, entry: QdqNode, judged: Mapping[QdqNode, _Compared]) -> bool:
    """Return whether a reader has another input with the same scale, and this input fills the range or may fill it."""
    # Operators such as Concat need one scale for all inputs: the scale of the widest input.
    qdq, scale = context.qdq, _scale(context, entry)
    readers = {use.node for dequantize in qdq.readers(entry) for use in dequantize.uses}
    for reader in readers:
        for value in reader.inputs:
            beside = qdq.dequantizer_of(value)
            other = qdq.quantizer_of(beside) if beside is not None else None
            if other is None or context.array(other.scale) is None or _scale(context, other) != scale:
                continue
            # The values of a model input are unknown: they may fill the range.
            if other not in judged or judged[other].times <= MOST_UNUSED:
                return True
    return False


def _scale(context: RuleContext, entry: QdqNode) -> float:
    """Return the largest scale of a Q whose range is known."""
    scale = context.array(entry.scale)
    assert entry.scale is not None
    assert scale is not None
    return context.bounds(entry.scale, scale).high


def _fault(context: RuleContext, found: _Compared) -> Fault:
    entry, values = found.entry, found.values
    where = f"with the range of '{values.source.label}', " if values.source is not None else ""
    scale = _scale(context, entry)
    fitting = number(float(f"{scale * values.width / found.range.width:.2g}"))
    other = f", or a larger one at '{values.source.label}'" if values.source is not None else ""
    message = (
        f"the range of this Q is {_ends(found.range)}, but {where}the values of a channel span at most "
        f"{values.width:.3g}: 1/{found.times:.3g} of it"
    )
    expected = f"a scale of about {fitting}{other}"
    impact = _impact(found, scale)
    extent = Extent("unfillable", degree=math.log2(found.times))
    return Fault(
        message, entry.node, entry.data, found=f"scale {scale:.3g}", expected=expected, impact=impact, extent=extent
    )


def _impact(found: _Compared, scale: float) -> Impact:
    fmt = format_of(found.entry.quantized_type)
    assert fmt is not None
    if fmt.kind != "integer":
        # A float format loses bits only where values fall below its smallest normal number.
        return CAUTION
    # Tools give a tensor of zeros, such as the output of a dead Relu, a scale of 1.
    is_destroyed = (fmt.high - fmt.low + 1) / found.times < FEWEST_CODES and scale != 1
    return SILENT if is_destroyed else SUSPECT


def _ends(span: Span) -> str:
    return f"{span.low:.3g} to {span.high:.3g}"
