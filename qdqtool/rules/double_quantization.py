"""QL309: data that is quantized twice in a row."""

from collections.abc import Iterator

import numpy as np

from qdqtool.graph.qdq import QdqNode
from qdqtool.rules._facts import Facts
from qdqtool.rules._rule import ADVICE, CAUTION, Example, Fault, Rule, impacts
from qdqtool.targets import Target


class DoubleQuantization(Rule):
    """Between a DQ and the next Q something is computed.

    Why it matters: a Q right behind a DQ rounds a second time. With other constants it loses accuracy (and runtimes
    that merge the two pairs give other results than those that do not); with the same constants it does nothing.

    Bad: Q, DQ, Q, DQ, as a tool makes it that is run twice.

    Good: one pair, shared by every consumer.
    """

    code = "QL309"
    name = "placement.double-quantization"
    affects = impacts(onnx=ADVICE, ort_cpu=CAUTION, tensorrt=CAUTION)
    remedy = "keep one of the two pairs"
    VALID = (
        Example(
            "a Relu between",
            """
            agraph (float[1,4] x) => (float[1,4] y) <float s = {0.1}, int8 z = {0}> {
                q = QuantizeLinear (x, s, z)
                d = DequantizeLinear (q, s, z)
                r = Relu (d)
                q2 = QuantizeLinear (r, s, z)
                y = DequantizeLinear (q2, s, z)
            }
            """,
        ),
    )
    INVALID = (
        Example(
            "two pairs with different scales",
            """
            agraph (float[1,4] x) => (float[1,4] y) <float s = {0.1}, float t = {0.3}, int8 z = {0}> {
                q = QuantizeLinear (x, s, z)
                d = DequantizeLinear (q, s, z)
                q2 = QuantizeLinear (d, t, z)
                y = DequantizeLinear (q2, t, z)
            }
            """,
        ),
    )

    def check(self, facts: Facts, target: Target) -> Iterator[Fault]:
        """Look for a Q that reads a DQ."""
        del target
        for entry in facts.qdq.quantizers():
            before = facts.qdq.dequantizer_of(entry.data)
            if before is not None:
                same = _same_scale(facts, before, entry)
                yield Fault(
                    message=f"this Q reads DQ '{before.node.label}' with {'the same' if same else 'another'} scale",
                    node=entry.node,
                    tensor=entry.data,
                    found="DQ, Q",
                    expected="one pair",
                    impact=ADVICE if same else None,
                )


def _same_scale(facts: Facts, before: QdqNode, after: QdqNode) -> bool:
    if before.scale is after.scale:
        return True
    first, second = facts.array(before.scale), facts.array(after.scale)
    return first is not None and second is not None and np.array_equal(first.reshape(-1), second.reshape(-1))
