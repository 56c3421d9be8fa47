"""QN504: ranges of activations that are too wide for their values."""

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
"""Largest ratio of the width of a range to the width of the values in any channel. The ratio was at most 2.8 for all
9,671 ranges of 95 models that qdqtool and ONNX Runtime quantized (int8, uint8, fp8; four calibration methods). A
symmetric format for values of one sign already makes a ratio of 2."""
FEWEST_CODES = 4.0
"""A tensor is destroyed if each channel uses fewer codes than this."""


class UnfillableRange(Rule):
    """The values that can reach a Q fill its range.

    Why it matters: a scale in the wrong unit, or of another tensor, loads and runs everywhere, but the model computes
    nonsense. The rule computes, by interval arithmetic and without data, which values can reach each Q: from the range
    of the DQ before it, the weights and the biases, through Relu, Add, Concat, pools and similar operators. If these
    values are far narrower than the range of the Q, its scale is too large, or the scale of the DQ is too small. It is
    an error if every channel can use fewer than four codes of an integer range.

    Other faults are found only with data: too wide a range for an input of the model or after a LayerNormalization, and
    a range that clips most values of its tensor. The gate `activations` of `check` compares the range of each Q with
    the values in the samples. With `--baseline`, the gate `weights` finds wrong scales of weights: it compares each
    stored weight with the weight of the float model.

    Bad: a scale of 33 after a Relu whose values are at most 2.

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
        """Compare the range of each Q with the values that can reach it."""
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


def _is_filled_beside(context: RuleContext, entry: QdqNode, judged: Mapping[QdqNode, _Compared]) -> bool:
    """Return whether a node also reads an input with the same scale that fills the range, or may fill it."""
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
    # Tools give a tensor of zeros, such as the output of a dead Relu, a scale of 1.
    is_destroyed = (fmt.high - fmt.low + 1) / found.times < FEWEST_CODES and scale != 1
    return SILENT if is_destroyed else SUSPECT


def _ends(span: Span) -> str:
    return f"{span.low:.3g} to {span.high:.3g}"
