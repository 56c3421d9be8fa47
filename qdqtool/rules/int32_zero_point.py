"""QS006: zero points of int32 codes."""

from collections.abc import Iterator

from onnx import TensorProto

from qdqtool.rules._facts import Facts
from qdqtool.rules._rule import SILENT, SUSPECT, Example, Fault, Rule, impacts
from qdqtool.rules._words import number
from qdqtool.targets import Target


class Int32ZeroPoint(Rule):
    """A DQ of int32 codes has no zero point other than 0.

    Why it matters: int32 stands for sums of products, which have no zero point; ONNX says there is none. A runtime may
    drop it, and one that subtracts it, as ONNX Runtime does, gives other numbers.

    Bad: an int32 bias with zero point 5.

    Good: an int32 bias without zero point, or a float bias.
    """

    code = "QS006"
    name = "structure.int32-zero-point"
    affects = impacts(onnx=SILENT, ort_cpu=SUSPECT)
    remedy = "subtract the zero point from the codes and leave it out"
    VALID = (
        Example(
            "no zero point",
            """
            agraph (float[2] x) => (float[2] y) <int32[2] b = {10, -20}, float s = {0.1}> {
                bd = DequantizeLinear (b, s)
                y = Add (x, bd)
            }
            """,
        ),
    )
    INVALID = (
        Example(
            "zero point 5",
            """
            agraph (float[2] x) => (float[2] y) <int32[2] b = {10, -20}, float s = {0.1}, int32 z = {5}> {
                bd = DequantizeLinear (b, s, z)
                y = Add (x, bd)
            }
            """,
        ),
    )

    def check(self, facts: Facts, target: Target) -> Iterator[Fault]:
        """Look at the zero point of every DQ of int32 that folds to a constant."""
        del target
        for entry in facts.qdq.dequantizers():
            if entry.quantized_type != TensorProto.INT32 or entry.zero_point is None:
                continue
            zero = facts.array(entry.zero_point)
            if zero is not None and zero.any():
                first = number(zero[zero != 0].flat[0])
                yield Fault(
                    message=f"zero point '{entry.zero_point.name}' of int32 codes is {first}",
                    node=entry.node,
                    tensor=entry.zero_point,
                    found=first,
                    expected="0, or no zero point",
                )
