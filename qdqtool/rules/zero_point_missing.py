"""QS001: a Q that does not say what it quantizes to."""

from collections.abc import Iterator

from qdqtool.rules._facts import Facts
from qdqtool.rules._rule import SILENT, Example, Fault, Rule, impacts
from qdqtool.targets import Target


class ZeroPointMissing(Rule):
    """A Q says its type, by a zero point or by output_dtype.

    Why it matters: where both are absent ONNX means uint8, so negative values become 0, while TensorRT takes int8. The
    same file then computes two different things, and nothing warns.

    Bad: QuantizeLinear (x, scale).

    Good: QuantizeLinear (x, scale, zero_point) with an int8 zero, or output_dtype = INT8 from opset 21.
    """

    code = "QS001"
    name = "spec.quantized-type-missing"
    affects = impacts(tensorrt=SILENT)
    remedy = "add a zero point of the type you mean (int8 zeros), or output_dtype from opset 21"
    VALID = (
        Example(
            "a zero point",
            """
            agraph (float[1,4] x) => (float[1,4] y) <float s = {0.1}, int8 z = {0}> {
                q = QuantizeLinear (x, s, z)
                y = DequantizeLinear (q, s, z)
            }
            """,
        ),
        Example(
            "output_dtype",
            """
            agraph (float[1,4] x) => (float[1,4] y) <float s = {0.1}> {
                q = QuantizeLinear <output_dtype = 3> (x, s)
                y = DequantizeLinear (q, s)
            }
            """,
        ),
    )
    INVALID = (
        Example(
            "neither",
            """
            agraph (float[1,4] x) => (float[1,4] y) <float s = {0.1}> {
                q = QuantizeLinear (x, s)
                y = DequantizeLinear (q, s)
            }
            """,
        ),
    )

    def check(self, facts: Facts, target: Target) -> Iterator[Fault]:
        """Look for a Q with neither."""
        del target
        for entry in facts.qdq.quantizers():
            if not entry.node.input_name(2) and not entry.output_dtype:
                yield Fault(
                    message="neither zero point nor output_dtype: ONNX reads uint8, TensorRT int8",
                    node=entry.node,
                    tensor=entry.output,
                    found="absent",
                    expected="a zero point or output_dtype",
                )
