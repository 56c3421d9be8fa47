"""QN502: weights whose codes are clipped, or leave most of their range unused."""

import math
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from onnx import TensorProto

from qdqtool.errors import ModelError
from qdqtool.findings import Extent
from qdqtool.graph.index.qdq import QdqNode
from qdqtool.graph.io.tensors import element_count, read_array
from qdqtool.numerics.granularity import PerAxis, PerTensor
from qdqtool.numerics.number_format import NumberFormat
from qdqtool.rules.support.pieces import places as places_of
from qdqtool.rules.support.rule import CAUTION, Example, Fault, Rule, impacts
from qdqtool.rules.support.rule_context import RuleContext, as_reals
from qdqtool.rules.support.words import format_of, number
from qdqtool.targets import Target

Reals = npt.NDArray[np.float64]

_WIDE = ", ".join(str(4 * value - 126) for value in range(64))
_NARROW = ", ".join(str(value % 33 - 16) for value in range(64))

LEAST_VALUES = 64
"""A weight with fewer codes is not judged: a few codes at the ends of the range prove nothing."""
PIECES, PIECE = 16, 4096
"""A large weight is sampled: this many evenly spread pieces of this many neighbouring values."""
MOST_CLIPPED = 0.05
"""A scale that clips for the least squared error clips less than 1 in 100 values of a normal distribution."""
LEAST_USED = 0.25
"""A weight whose greatest code is below a quarter of the range has lost 2 of its bits."""

LEAST_USED_OF_FLOAT8 = 2.0**-12
"""fp8 keeps its bits down to its smallest normal number, some 15 powers of 2 below its greatest."""

FOUR_BITS = range(7, 16)
"""The possible greatest magnitudes of int4 codes, or of uint4 codes minus their zero point."""

MOST_UNPACKED = 1 << 20
"""The most elements of a weight whose codes of less than a byte are unpacked."""


class CodeRange(Rule):
    """The scale of a weight fits its values.

    Why it matters: values beyond the greatest code are clipped to it, and a few of them change a layer more than all
    rounding; a scale that is too large makes all codes small, and rounds with fewer bits than were paid for. Both
    come from scales of another tensor, of another unit, or of one outlier.

    Bad: a float weight up to 3 with an int8 scale of 0.001, which clips at 0.127.

    Good: the scale max(abs(w)) / 127, for each output channel.
    """

    code = "QN502"
    name = "numbers.code-range"
    affects = impacts(onnx=CAUTION, ort_cpu=CAUTION, tensorrt=CAUTION)
    remedy = "find the scale again, for each output channel"
    VALID = (
        Example(
            "codes over the whole range",
            f"""
            agraph (float[8,8] x) => (float[8,8] y) <float s = {{1}}, int8 z = {{0}},
             float[64] w = {{{_WIDE}}}, int64[2] n = {{8, 8}}> {{
                q = QuantizeLinear (w, s, z)
                wd = DequantizeLinear (q, s, z)
                m = Reshape (wd, n)
                y = MatMul (x, m)
            }}
            """,
        ),
        Example(
            "an int32 bias, whose scale is that of the activation times that of the weight",
            f"""
            agraph (float[1,64] x) => (float[1,64] y) <float s = {{0.0001}}, int32[64] b = {{{_NARROW}}}> {{
                bd = DequantizeLinear (b, s)
                y = Add (x, bd)
            }}
            """,
            targets=("onnx", "ort-cpu"),
        ),
    )
    INVALID = (
        Example(
            "half of the values are clipped",
            f"""
            agraph (float[8,8] x) => (float[8,8] y) <float s = {{0.5}}, int8 z = {{0}},
             float[64] w = {{{_WIDE}}}, int64[2] n = {{8, 8}}> {{
                q = QuantizeLinear (w, s, z)
                wd = DequantizeLinear (q, s, z)
                m = Reshape (wd, n)
                y = MatMul (x, m)
            }}
            """,
        ),
        Example(
            "codes of 16 at most",
            f"""
            agraph (float[8,8] x) => (float[8,8] y) <float s = {{1}}, int8[8,8] w = {{{_NARROW}}}> {{
                wd = DequantizeLinear (w, s)
                y = MatMul (x, wd)
            }}
            """,
        ),
    )

    def check(self, context: RuleContext, target: Target) -> Iterator[Fault]:
        """Read a sample of every stored weight, and of every float weight that a Q reads."""
        del target
        for entry in context.qdq.nodes:
            # The scale of an int32 bias is that of the activation times that of the weight, whatever the bias holds.
            if entry.quantized_type == TensorProto.INT32:
                continue
            sample = _sample(context, entry)
            if sample is None or sample.codes.size < LEAST_VALUES:
                continue
            fmt, used = sample.format, sample.used
            if sample.clipped > MOST_CLIPPED:
                found, expected = f"{sample.clipped:.0%} of the values are clipped", f"at most {MOST_CLIPPED:.0%}"
                extent = Extent("clipped", degree=sample.lost)
            elif sample.is_four_bits:
                continue
            elif 0 < used < (LEAST_USED if fmt.kind == "integer" or fmt.bits < 8 else LEAST_USED_OF_FLOAT8):
                reach = number(used * fmt.high)
                found, expected = f"no {fmt} code is beyond {reach}", f"codes up to {number(fmt.high)}"
                extent = Extent("unused", degree=-math.log2(used))
            else:
                continue
            yield Fault(
                message=f"the scale does not fit weight '{entry.node.input_name(0)}': {found}",
                node=entry.node,
                tensor=entry.data,
                found=found,
                expected=expected,
                extent=extent,
            )


@dataclass(frozen=True, slots=True, eq=False)
class _Sample:
    """Some codes of a weight; those that a Q computes are not rounded yet.

    Attributes:
        format: The number format of the codes.
        codes: The codes.
        clipped: The fraction of the codes that lies beyond the range.
    """

    format: NumberFormat
    codes: Reals
    clipped: float

    @property
    def used(self) -> float:
        """The greatest magnitude among the codes, as a fraction of the greatest code of the format."""
        return float(np.max(np.abs(self.codes))) / self.format.high

    @property
    def lost(self) -> float:
        """The error of clipping in proportion to the codes, from 0 to 1: the root of the ratio of their energies."""
        over = self.codes - np.clip(self.codes, self.format.low, self.format.high)
        return float(np.linalg.norm(over) / (np.linalg.norm(self.codes) or 1.0))

    @property
    def is_four_bits(self) -> bool:
        """Whether the codes look like 4-bit codes, stored as int8 for a kernel that reads int8 only."""
        return self.format.name == "int8" and bool(np.max(np.abs(self.codes)) in FOUR_BITS)


def _sample(context: RuleContext, entry: QdqNode) -> _Sample | None:
    """Return a sample of the codes of a weight; None where there is no weight, or a zero point other than 0.

    Codes of less than a byte can only be unpacked all together, so large weights of such codes are skipped.
    """
    stored = entry.data.initializer if entry.data is not None else None
    fmt = format_of(entry.quantized_type)
    if stored is None or fmt is None or fmt.low >= 0 or _has_zero_point(context, entry):
        return None
    if not entry.is_quantize and fmt.bits < 8 and element_count(stored) > MOST_UNPACKED:
        return None
    try:
        weight = read_array(context.model, stored)
    except ModelError:
        # The rule about unreadable parameters, or load_model, reports it.
        return None
    places = places_of(weight.size)
    values = np.nan_to_num(as_reals(weight.reshape(-1)[places]))
    if not entry.is_quantize:
        return _Sample(fmt, values, 0.0)
    scale = _scales(context, entry, weight.shape, places)
    if scale is None:
        return None
    with np.errstate(all="ignore"):
        codes = np.nan_to_num(values / scale)
    # Half a step at the end of the range: values up to there round to the last code and are not clipped. The last two
    # codes of e4m3 are 416 and 448, a step of high / 14; high / 32 lies below half of it.
    half = 0.5 if fmt.kind == "integer" else fmt.high / 32
    return _Sample(fmt, codes, float(np.mean((codes < fmt.low - half) | (codes > fmt.high + half))))


def _has_zero_point(context: RuleContext, entry: QdqNode) -> bool:
    zero = context.array(entry.zero_point)
    return entry.zero_point is not None and (zero is None or bool(np.any(as_reals(zero))))


def _scales(
    context: RuleContext, entry: QdqNode, shape: tuple[int, ...], places: npt.NDArray[np.int64]
) -> Reals | None:
    """Return the scale at each of ``places`` of the flat weight; None for block scales."""
    scale, axis = context.array(entry.scale), context.axis(entry)
    if scale is None or not scale.size:
        return None
    if entry.granularity == PerTensor():
        return np.broadcast_to(as_reals(scale).reshape(()), places.shape)
    if not isinstance(entry.granularity, PerAxis) or axis is None or scale.shape != (shape[axis],):
        return None
    inner = int(np.prod(shape[axis + 1 :]))
    channels = places // inner % shape[axis]
    return as_reals(scale)[channels]
