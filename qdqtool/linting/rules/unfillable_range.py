"""QN504: ranges of activations that nothing can fill."""

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
from qdqtool.models.ops import Span
from qdqtool.models.targets import Target

MOST_UNUSED = 8.0
"""The most times that a range may be wider than the values of any channel. In 95 models that this package and ONNX
Runtime quantized, in int8, uint8 and fp8 and with four calibration methods, no range of 9,671 was wider than 2.8 times;
a symmetric format of values of one sign alone makes 2."""
FEWEST_CODES = 4.0
"""A tensor of which each channel takes fewer codes is destroyed."""


class UnfillableRange(Rule):
    """The node that makes the input of a Q can fill the range of the Q.

    Why it matters: a scale in the wrong unit, or of another tensor, loads and runs everywhere, and the model computes
    nonsense. Two scales and the weights between them contradict each other where the values that a DQ can give, the
    weights and the biases cannot fill the range of the next Q by far: then that scale is too large, or the one in front
    is too small. It is proven by interval arithmetic, without data, through Relu, Add, Concat, pools and the like.
    An integer range of which every channel can take fewer than four codes is an error.

    What no bound can say needs data: a range of an input of the model that is too large, one behind a
    LayerNormalization, one that clips most values of its tensor. The gate `activations` of `check` compares the range
    of each Q with the values that it sees, and with `--baseline` the gate `weights` compares each stored weight with
    that of the float model, which finds a wrong scale of a weight.

    Bad: a scale of 33 behind a Relu, for values up to 2.

    Good: max(abs(x)) / 127, of the values that the tensor takes.
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
    """)

    def check(self, context: RuleContext, target: Target) -> Faults:
        """Compare each range with the values that can come in."""
        entries = [*_activations(context)]
        if not entries:
            return
        spans = Spans(context)
        compared = [found for entry in entries if (found := _compared(spans, entry)) is not None]
        judged: Mapping[QdqNode, _Compared] = {found.entry: found for found in compared}
        for found in compared:
            if found.times > MOST_UNUSED and not _is_filled_beside(context, found.entry, judged):
                yield _fault(context, found)


def _activations(context: RuleContext) -> Iterator[QdqNode]:
    """Yield every Q whose data is computed; the rule about weights (QN502) judges the others."""
    for entry in context.qdq.quantizers():
        if entry.data is not None and not context.constants.is_constant(entry.data):
            yield entry


@dataclass(frozen=True, slots=True)
class _Compared:
    """A Q, its range, what can come in, and how many times wider the range is."""

    entry: QdqNode
    range: Span
    values: Span
    times: float


def _compared(spans: Spans, entry: QdqNode) -> _Compared | None:
    values, given = spans.of(entry.data), spans.range_of(entry)
    if values is None or given is None or not 0 < values.width < math.inf:
        return None
    # Of constants, which are no activations, and of what some node makes the values are known.
    assert entry.data is not None
    assert entry.data.producer is not None
    if ops.traits(entry.data.producer).bound is not None:
        # Behind a Sigmoid or Softmax tools choose all values that it can make, not those that it makes here.
        values = Span(values.low, values.high, source=values.source)
    return _Compared(entry, given, values, given.width / values.width)


def _is_filled_beside(context: RuleContext, entry: QdqNode, judged: Mapping[QdqNode, _Compared]) -> bool:
    """Return whether another input of a reader has the same scale and fills its range, as far as is known."""
    # Operators such as Concat want one scale for all their inputs, that of the widest.
    qdq, scale = context.qdq, _scale(context, entry)
    readers = {use.node for dequantize in qdq.readers(entry) for use in dequantize.uses}
    for reader in readers:
        for value in reader.inputs:
            beside = qdq.dequantizer_of(value)
            other = qdq.quantizer_of(beside) if beside is not None else None
            if other is None or context.array(other.scale) is None or _scale(context, other) != scale:
                continue
            # What an input of the model holds is not known: it may fill the range.
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
    where = f"behind the range of '{values.source.label}' " if values.source is not None else ""
    scale = _scale(context, entry)
    fitting = number(float(f"{scale * values.width / found.range.width:.2g}"))
    other = f", or a larger one at '{values.source.label}'" if values.source is not None else ""
    message = (
        f"the range of this Q is {_ends(found.range)}, but {where}no two values of a channel can be farther apart "
        f"than {values.width:.3g}: 1/{found.times:.3g} of it"
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
    # Tools give a scale of 1 to a tensor of zeros, such as that of a dead Relu.
    is_destroyed = (fmt.high - fmt.low + 1) / found.times < FEWEST_CODES and scale != 1
    return SILENT if is_destroyed else SUSPECT


def _ends(span: Span) -> str:
    return f"{span.low:.3g} to {span.high:.3g}"
