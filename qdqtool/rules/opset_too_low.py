"""QS004: what the model's opset does not have yet."""

from collections.abc import Iterator

from qdqtool.rules._facts import Facts
from qdqtool.rules._opsets import needs
from qdqtool.rules._rule import CAUTION, REFUSED, Example, Fault, Rule, impacts
from qdqtool.rules._words import short
from qdqtool.targets import Target


class OpsetTooLow(Rule):
    """The opset has the types and attributes that the model's Q/DQ use.

    Why it matters: Q/DQ came with opset 10 and grew: per-axis scales with 13, fp8 and float16 scales with 19, int4,
    int16 and blocks with 21, fp4 with 23. ONNX Runtime refuses what is too new for the opset that the model states;
    TensorRT does not look.

    Bad: int4 weights in a model of opset 19.

    Good: the same model at opset 21.
    """

    code = "QS004"
    name = "spec.opset-too-low"
    affects = impacts(onnx=REFUSED, ort_cpu=REFUSED, tensorrt=CAUTION)
    remedy = "upgrade the model's opset"
    VALID = (
        Example(
            "int4 at opset 21",
            """
            agraph (float[1,2] x) => (float[1,2] y) <int4[2,2] w = {33, 67}, float ws = {0.1}> {
                wd = DequantizeLinear (w, ws)
                y = MatMul (x, wd)
            }
            """,
        ),
    )
    INVALID = (
        Example(
            "int4 at opset 19",
            """
            <ir_version: 10, opset_import: ["": 19]>
            agraph (float[1,2] x) => (float[1,2] y) <int4[2,2] w = {33, 67}, float ws = {0.1}> {
                wd = DequantizeLinear (w, ws)
                y = MatMul (x, wd)
            }
            """,
        ),
        Example(
            "per-axis scales at opset 11",
            """
            <ir_version: 6, opset_import: ["": 11]>
            agraph (float[1,2] x) => (float[1,2] y)
            <int8[2,2] w = {1,2,3,4}, float[2] ws = {0.1, 0.2}, int8[2] wz = {0,0}> {
                wd = DequantizeLinear <axis = 1> (w, ws, wz)
                y = MatMul (x, wd)
            }
            """,
        ),
    )

    def check(self, facts: Facts, target: Target) -> Iterator[Fault]:
        """Find the newest thing that each Q or DQ uses."""
        del target
        for entry in facts.qdq.nodes:
            opset = entry.node.scope.opset
            if entry.node.domain:
                continue
            what, needed = max(needs(facts, entry), key=lambda need: need[1])
            if needed > opset:
                yield Fault(
                    message=f"this {short(entry)} uses {what}; the model's opset is {opset}",
                    node=entry.node,
                    found=f"opset {opset}",
                    expected=f"at least opset {needed}",
                )
