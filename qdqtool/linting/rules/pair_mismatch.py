"""QP106: a Q and a DQ with different constants."""

import numpy as np

from qdqtool.linting.findings import Extent
from qdqtool.linting.rules.support.extents import octaves, of_values
from qdqtool.linting.rules.support.rule import SILENT, Fault, Faults, Rule, examples, impacts
from qdqtool.linting.rules.support.rule_context import Array, RuleContext, as_reals
from qdqtool.linting.rules.support.words import dims, number
from qdqtool.models.graph.index.qdq import QdqPair
from qdqtool.models.graph.index.view import Value
from qdqtool.models.targets import Target


class PairMismatch(Rule):
    """A Q and the DQ that reads it have the same scale, zero point, axis and block size.

    Why it matters: with different constants the pair scales or shifts every value instead of only rounding it. Such a
    pair is legal and loads everywhere, but is nearly always a mistake.

    Bad: a Q with scale 0.1 and a DQ with scale 0.2: everything doubles.

    Good: one scale, shared by both.
    """

    code = "QP106"
    name = "parameters.pair-mismatch"
    affects = impacts(onnx=SILENT, ort_cpu=SILENT, tensorrt=SILENT)
    remedy = "let Q and DQ read the same scale and zero point, with the same axis"
    VALID = examples("""
        equal constants:
            agraph (float[1,4] x) => (float[1,4] y) <float s = {0.1}, float[1] t = {0.1}, int8 z = {0}> {
                q = QuantizeLinear (x, s, z)
                y = DequantizeLinear (q, t)
            }
    """)
    INVALID = examples("""
        different scales:
            agraph (float[1,4] x) => (float[1,4] y) <float s = {0.1}, float t = {0.2}, int8 z = {0}> {
                q = QuantizeLinear (x, s, z)
                y = DequantizeLinear (q, t, z)
            }
        the same scales on different axes:
            agraph (float[2,2] x) => (float[2,2] y) <float[2] s = {0.1, 0.2}, int8[2] z = {0,0}> {
                q = QuantizeLinear <axis = 0> (x, s, z)
                y = DequantizeLinear <axis = 1> (q, s, z)
            }
        different zero points [onnx, ort-cpu]:
            agraph (float[1,4] x) => (float[1,4] y) <float s = {0.1}, uint8 z = {128}> {
                q = QuantizeLinear (x, s, z)
                y = DequantizeLinear (q, s)
            }
    """)

    def check(self, context: RuleContext, target: Target) -> Faults:
        """Compare the constants of every pair."""
        for pair in context.qdq.pairs:
            yield from _scales(context, pair)
            yield from _zero_points(context, pair)
            yield from _axes(context, pair)


def _scales(context: RuleContext, pair: QdqPair) -> Faults:
    quantize, dequantize = pair.quantize, pair.dequantize
    if quantize.scale is dequantize.scale:
        return
    made, read = context.array(quantize.scale), context.array(dequantize.scale)
    if made is not None and read is not None:
        yield from _compared(pair, "scale", dequantize.scale, made, read)


def _zero_points(context: RuleContext, pair: QdqPair) -> Faults:
    made, read = pair.quantize.zero_point, pair.dequantize.zero_point
    if made is read:
        return
    values = [np.zeros((), np.int64) if each is None else context.array(each) for each in (made, read)]
    if values[0] is None or values[1] is None:
        return
    first, second = (as_reals(np.asarray(each)) for each in values)
    # An absent zero point means 0, so it equals an explicit 0 of the other node.
    one_sided = made is None or read is None
    both = np.broadcast_arrays(first, second) if one_sided else (first, second)
    yield from _compared(pair, "zero point", read or made, *both)


def _axes(context: RuleContext, pair: QdqPair) -> Faults:
    quantize, dequantize = pair.quantize, pair.dequantize
    if quantize.scale_shape in {None, (), (1,)}:
        return
    made, read = context.axis(quantize), context.axis(dequantize)
    if made is not None and read is not None and made != read:
        yield _fault(pair, "axis", dequantize.data, (str(made), str(read)))
    if quantize.block_size != dequantize.block_size:
        sizes = str(quantize.block_size), str(dequantize.block_size)
        yield _fault(pair, "block_size", dequantize.data, sizes)


def _compared(pair: QdqPair, what: str, tensor: Value | None, made: Array, read: Array) -> Faults:
    """Yield a fault with the first difference in words, and the extent of all differences."""
    if made.size != read.size or (made.shape != read.shape and made.size != 1):
        yield _fault(pair, what, tensor, (f"shape {dims(made.shape)}", f"shape {dims(read.shape)}"))
        return
    first, second = as_reals(made).reshape(-1), as_reals(read).reshape(-1)
    unequal = ~((first == second) | (np.isnan(first) & np.isnan(second)))
    places = np.flatnonzero(unequal)
    if not len(places):
        return
    where = f" in channel {places[0]}" if made.size > 1 else ""
    more = f" (and {len(places) - 1} more)" if len(places) > 1 else ""
    off = octaves(second, first) if what == "scale" else np.abs(second - first)
    words = f"{number(first[places[0]])}{where}", f"{number(second[places[0]])}{where}{more}"
    yield _fault(pair, what, tensor, words, of_values(what, unequal, off))


def _fault(
    pair: QdqPair, what: str, tensor: Value | None, words: tuple[str, str], extent: Extent | None = None
) -> Fault:
    """Return the fault of a pair; ``words`` are the values of the Q and of the DQ."""
    made, read = words
    message = f"{what} of this DQ is {read}, but the {what} of its Q '{pair.quantize.node.label}' is {made}"
    known = extent or Extent(f"{what} {read} for {made}")
    return Fault(message, pair.dequantize.node, tensor, found=read, expected=made, extent=known)
