"""QN502: weights whose codes are clipped or use little of their range."""

import math
from dataclasses import replace

import numpy as np

from qdqtool.linting.findings import Extent
from qdqtool.linting.rules.support.rule import CAUTION, SILENT, SUSPECT, Fault, Faults, Rule, examples, impacts
from qdqtool.linting.rules.support.rule_context import RuleContext
from qdqtool.linting.rules.support.weight_codes import WeightCodes, weight_codes
from qdqtool.linting.rules.support.words import number
from qdqtool.models.targets import Target
from qdqtool.numerics.derive import smallest_positive

WIDE = ", ".join(str(4 * value - 126) for value in range(64))
NARROW = ", ".join(str(value % 33 - 16) for value in range(64))
# The codes that a Q makes of WIDE with a scale 40 times too small.
SATURATED = ", ".join(str(max(-128, min(127, 40 * (4 * value - 126)))) for value in range(64))
ZEROS = ", ".join(["0"] * 64)

LEAST_VALUES = 64
"""A weight with fewer codes is not checked, because a few codes at the ends of the range prove nothing."""
MOST_CLIPPED = 0.05
"""Largest clipped share. The scale with the least squared error clips less than 1 % of a normal distribution."""
HALF_CLIPPED = 0.5
"""A float weight with a larger clipped share is destroyed: only its signs are left. A ternary weight whose scale is its
mean magnitude clips a quarter of a normal distribution, and that is intended."""
LEAST_USED = 0.25
"""A weight whose greatest code is below a quarter of the range loses 2 bits."""

LEAST_USED_OF_FLOAT8 = 2.0**-12
"""fp8 keeps its precision down to its smallest normal number, about 15 powers of 2 below the greatest number."""

FOUR_BITS = range(7, 16)
"""The possible greatest magnitudes of int4 codes, or of uint4 codes minus their zero point."""

MOST_AT_THE_ENDS = 0.15
"""Largest share of stored codes at the ends of the range, for codes with many magnitudes. A sine wave has 6 % of its
int8 codes there. A normal distribution with the scale of the least squared error has 1 %."""
MOST_AT_THE_ENDS_BY_LEVELS = ((1, 1.0), (4, 0.95), (8, 0.6))
"""The same share for codes with few magnitudes: pairs of the largest number of magnitudes and the share. Such a weight
was trained for them (binary, ternary, powers of 2) or has 4 bits. In blocks of 16, every eighth 4-bit code is at an
end. One magnitude means a binary or ternary weight."""
LEAST_TERNARY = 0.25
"""Smallest share of nonzero codes of a ternary weight. Other weights that round to -1, 0 and 1 have less."""
SCALES_OF_ZEROS = (1e-4, 1.0)
"""Known tools give a weight of zeros a scale of at most the first number, or exactly the second number."""


class CodeRange(Rule):
    """The scale of a weight fits its values.

    Why it matters: values beyond the greatest code are clipped. A few clipped values change a layer more than all
    rounding. A scale that is too large makes all codes small: some bits stay unused, or every value rounds to 0. The
    usual cause is a scale from another tensor, in another unit, or from one outlier. The float values of stored codes
    are unknown. For these, the rule looks for too many codes at the ends of the range. It also looks for codes that are
    all 0 with a scale that tools do not give to a tensor of zeros. Binary, ternary, 2-bit and pruned weights are not
    reported. If only the scale was changed afterwards, the codes do not show it, but ``check --baseline`` does: it
    compares weights.

    Bad: a float weight with values up to 3 and an int8 scale of 0.001, which clips at 0.127.

    Good: the scale max(abs(w)) / 127, for each output channel.
    """

    code = "QN502"
    name = "numbers.code-range"
    affects = impacts(onnx=CAUTION, ort_cpu=CAUTION, tensorrt=CAUTION)
    remedy = "find the scale again, for each output channel"
    VALID = examples(
        """
        codes over the whole range:
            agraph (float[8,8] x) => (float[8,8] y) <float s = {1}, int8 z = {0},
             float[64] w = {$WIDE}, int64[2] n = {8, 8}> {
                q = QuantizeLinear (w, s, z)
                wd = DequantizeLinear (q, s, z)
                m = Reshape (wd, n)
                y = MatMul (x, m)
            }
        a pruned weight, all zeros:
            agraph (float[8,8] x) => (float[8,8] y) <float s = {1}, int8[8,8] w = {$ZEROS}> {
                wd = DequantizeLinear (w, s)
                y = MatMul (x, wd)
            }
        an int32 bias, whose scale is that of the activation times that of the weight [onnx, ort-cpu]:
            agraph (float[1,64] x) => (float[1,64] y) <float s = {0.0001}, int32[64] b = {$NARROW}> {
                bd = DequantizeLinear (b, s)
                y = Add (x, bd)
            }
        """,
        NARROW=NARROW,
        WIDE=WIDE,
        ZEROS=ZEROS,
    )
    INVALID = examples(
        """
        half of the values are clipped:
            agraph (float[8,8] x) => (float[8,8] y) <float s = {0.5}, int8 z = {0},
             float[64] w = {$WIDE}, int64[2] n = {8, 8}> {
                q = QuantizeLinear (w, s, z)
                wd = DequantizeLinear (q, s, z)
                m = Reshape (wd, n)
                y = MatMul (x, m)
            }
        codes of 16 at most:
            agraph (float[8,8] x) => (float[8,8] y) <float s = {1}, int8[8,8] w = {$NARROW}> {
                wd = DequantizeLinear (w, s)
                y = MatMul (x, wd)
            }
        nearly all stored codes at the ends of the range:
            agraph (float[8,8] x) => (float[8,8] y) <float s = {0.025}, int8[8,8] w = {$SATURATED}> {
                wd = DequantizeLinear (w, s)
                y = MatMul (x, wd)
            }
        nothing left of a weight:
            agraph (float[8,8] x) => (float[8,8] y) <float s = {4}, int8[8,8] w = {$ZEROS}> {
                wd = DequantizeLinear (w, s)
                y = MatMul (x, wd)
            }
        """,
        NARROW=NARROW,
        SATURATED=SATURATED,
        WIDE=WIDE,
        ZEROS=ZEROS,
    )

    def check(self, context: RuleContext, target: Target) -> Faults:
        """Read a sample of every stored weight, and of every float weight that a Q reads."""
        for entry in context.qdq.nodes:
            codes = weight_codes(context, entry)
            if codes is None or codes.codes.size < LEAST_VALUES:
                continue
            fault = _clipped(codes) or _saturated(codes) or _vanished(codes) or _unused(codes)
            if fault is not None:
                message = f"the scale does not fit weight '{entry.node.input_name(0)}': {fault.found}"
                yield replace(fault, message=message, node=entry.node, tensor=entry.data)


# These functions return a fault without message and place; the caller adds both.


def _clipped(codes: WeightCodes) -> Fault | None:
    share = codes.clipped
    most = MOST_CLIPPED if codes.format.bits > 2 else HALF_CLIPPED
    if share <= most:
        return None
    impact = SILENT if share > HALF_CLIPPED else None
    extent = Extent("clipped", degree=codes.lost)
    found = f"{share:.0%} of the values are clipped"
    return Fault("", found=found, expected=f"at most {most:.0%}", extent=extent, impact=impact)


def _saturated(codes: WeightCodes) -> Fault | None:
    """Find stored codes with too many codes at the ends of the range. How many values were clipped is unknown."""
    if codes.values is not None or codes.format.bits <= 2:
        return None
    share = codes.at_the_ends
    if share <= MOST_AT_THE_ENDS:
        return None
    most = next((most for levels, most in MOST_AT_THE_ENDS_BY_LEVELS if codes.levels <= levels), MOST_AT_THE_ENDS)
    if share <= most:
        return None
    fmt, high = codes.format, number(codes.format.high)
    where = f"{high} or more in magnitude" if codes.is_symmetric else f"{number(fmt.low)} or {high}"
    found = f"{share:.1%} of its {fmt} codes that are not 0 are {where}"
    extent = Extent("saturated", degree=share)
    return Fault("", found=found, expected=f"at most {most:.0%}", extent=extent, impact=SUSPECT)


def _vanished(codes: WeightCodes) -> Fault | None:
    """Find a weight of which every value rounds to 0."""
    values, scale = codes.values, codes.scale
    expected, extent = "codes over the whole range", Extent("vanished")
    if values is not None:
        gone = np.abs(codes.codes - codes.zero_point) <= smallest_positive(codes.format) / 2
        if not values.any() or not gone.all():
            return None
        greatest = number(np.max(np.abs(values)))
        found = f"every value, up to {greatest}, rounds to code 0"
        return Fault("", found=found, expected=expected, extent=extent, impact=SILENT)
    tiny, usual = SCALES_OF_ZEROS
    if not codes.is_whole or codes.distances.size or scale is None or np.all((scale <= tiny) | (scale == usual)):
        return None
    # A weight of zeros is legal. But other scales were computed from values that were not 0.
    found = f"every code represents 0, although the scale is {number(np.max(scale))}"
    return Fault("", found=found, expected=expected, extent=extent, impact=SUSPECT)


def _unused(codes: WeightCodes) -> Fault | None:
    """Find a weight whose codes use a small part of the range."""
    if not codes.is_symmetric or _has_few_bits(codes):
        return None
    fmt, used = codes.format, codes.used
    if not 0 < used < (LEAST_USED if fmt.kind == "integer" or fmt.bits < 8 else LEAST_USED_OF_FLOAT8):
        return None
    found = f"no {fmt} code is beyond {number(used * fmt.high)}"
    extent = Extent("unused", degree=-math.log2(used))
    return Fault("", found=found, expected=f"codes up to {number(fmt.high)}", extent=extent)


def _has_few_bits(codes: WeightCodes) -> bool:
    """Return whether int8 codes look like ternary or 4-bit codes, stored as int8 for an int8 kernel."""
    greatest = np.max(np.abs(codes.codes))
    if codes.format.name != "int8" or codes.values is not None:
        return codes.format.name == "int8" and bool(greatest in FOUR_BITS)
    is_ternary = greatest == 1 and codes.distances.size >= LEAST_TERNARY * codes.codes.size
    return bool(greatest in FOUR_BITS) or is_ternary
