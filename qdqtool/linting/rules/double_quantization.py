"""QL309: data that is quantized twice in a row."""

import numpy as np

from qdqtool.linting.rules.support.fix import Draft, Offer, UnfitError
from qdqtool.linting.rules.support.rule import ADVICE, CAUTION, Fault, Faults, Rule, examples, impacts
from qdqtool.linting.rules.support.rule_context import RuleContext
from qdqtool.models.graph.index.qdq import QdqNode, same_constant
from qdqtool.models.targets import Target

MERGED = Offer("safe", "merges the second pair into the first, if both have the same constants")


class DoubleQuantization(Rule):
    """A Q does not read the output of a DQ directly.

    Why it matters: a Q directly after a DQ rounds a second time. If its constants differ from those before, accuracy is
    lost, and runtimes that merge the two pairs give other results than runtimes that keep them. With the same
    constants, the second pair changes nothing.

    Bad: Q, DQ, Q, DQ, as a tool writes it when it is run twice.

    Good: one pair, shared by every consumer.
    """

    code = "QL309"
    name = "placement.double-quantization"
    affects = impacts(onnx=ADVICE, ort_cpu=CAUTION, tensorrt=CAUTION)
    remedy = "keep one of the two pairs"
    offers = (MERGED,)
    VALID = examples("""
        a Relu between:
            agraph (float[1,4] x) => (float[1,4] y) <float s = {0.1}, int8 z = {0}> {
                q = QuantizeLinear (x, s, z)
                d = DequantizeLinear (q, s, z)
                r = Relu (d)
                q2 = QuantizeLinear (r, s, z)
                y = DequantizeLinear (q2, s, z)
            }
    """)
    INVALID = examples("""
        two pairs with different scales:
            agraph (float[1,4] x) => (float[1,4] y) <float s = {0.1}, float t = {0.3}, int8 z = {0}> {
                q = QuantizeLinear (x, s, z)
                d = DequantizeLinear (q, s, z)
                q2 = QuantizeLinear (d, t, z)
                y = DequantizeLinear (q2, t, z)
            }
        the same pair twice:
            agraph (float[1,4] x) => (float[1,4] y) <float s = {0.1}, int8 z = {0}> {
                q1 = QuantizeLinear (x, s, z)
                d1 = DequantizeLinear (q1, s, z)
                q2 = QuantizeLinear (d1, s, z)
                d2 = DequantizeLinear (q2, s, z)
                y = Relu (d2)
            }
    """)

    def check(self, context: RuleContext, target: Target) -> Faults:
        """Look for a Q that reads a DQ."""
        for entry in context.qdq.quantizers():
            before = context.qdq.dequantizer_of(entry.data)
            if before is not None:
                same = _same_scale(context, before, entry)
                message = f"this Q reads DQ '{before.node.label}' with {'the same' if same else 'another'} scale"
                impact = ADVICE if same else None
                fixes = (MERGED.fix("merges it into the pair in front", _merge, entry),) if same else ()
                yield Fault(
                    message, entry.node, entry.data, found="DQ, Q", expected="one pair", impact=impact, fixes=fixes
                )


def _merge(entry: QdqNode, draft: Draft) -> None:
    qdq, constants = draft.context.qdq, draft.context.constants
    before = qdq.dequantizer_of(entry.data)
    assert before is not None
    assert entry.data is not None
    if entry.output is None or entry.output.is_output:
        raise UnfitError("its codes are an output")
    same = same_constant(before.zero_point, entry.zero_point, constants) and before.granularity == entry.granularity
    readers = qdq.readers(entry)
    if not same or len(readers) != len(entry.uses) or before.quantized_type != entry.quantized_type:
        raise UnfitError("the two pairs are not equal, or another node reads the codes")
    for reader in readers:
        if reader.output is None or not same_constant(before.scale, reader.scale, constants):
            raise UnfitError("the DQ behind it has another scale")
        draft.replace(reader.output, entry.data.name)


def _same_scale(context: RuleContext, before: QdqNode, after: QdqNode) -> bool:
    if before.scale is after.scale:
        return True
    first, second = context.array(before.scale), context.array(after.scale)
    return first is not None and second is not None and np.array_equal(first.reshape(-1), second.reshape(-1))
