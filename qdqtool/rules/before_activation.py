"""QL305: pairs between an operator and the activation that is fused into it."""

from collections.abc import Iterator

from qdqtool import ops
from qdqtool.graph.view import NodeView
from qdqtool.rules._facts import Facts
from qdqtool.rules._rule import CAUTION, Example, Fault, Rule, impacts
from qdqtool.targets import Target

FUSED = ("Relu", "Clip", "LeakyRelu", "BatchNormalization")


class BeforeActivation(Rule):
    """No pair stands between a Conv, Gemm or MatMul and the activation behind it.

    Why it matters: the activation is computed in the registers of the operator in front of it. A pair between them
    rounds and clips once more, on values that Relu or Clip throws away, and spends half of its codes on them.

    Bad: Conv, Q, DQ, Relu.

    Good: Conv, Relu, Q, DQ.
    """

    code = "QL305"
    name = "placement.before-activation"
    affects = impacts(tensorrt=CAUTION)
    remedy = "move the pair behind the activation, and calibrate it there"
    VALID = (
        Example(
            "the pair stands behind Relu",
            """
            agraph (float[1,2] x) => (float[1,2] y)
            <float s = {0.1}, int8 z = {0}, int8[2,2] w = {1,2,3,4}, float[2] ws = {0.1, 0.2}, int8[2] wz = {0,0}> {
                xq = QuantizeLinear (x, s, z)
                xd = DequantizeLinear (xq, s, z)
                wd = DequantizeLinear <axis = 1> (w, ws, wz)
                m = MatMul (xd, wd)
                r = Relu (m)
                q = QuantizeLinear (r, s, z)
                y = DequantizeLinear (q, s, z)
            }
            """,
        ),
    )
    INVALID = (
        Example(
            "the pair stands in front of Relu",
            """
            agraph (float[1,2,2,2] x) => (float[1,2,2,2] y)
            <float s = {0.1}, int8 z = {0}, int8[2,2,1,1] w = {1,2,3,4}, float[2] ws = {0.1, 0.2}, int8[2] wz = {0,0}> {
                xq = QuantizeLinear (x, s, z)
                xd = DequantizeLinear (xq, s, z)
                wd = DequantizeLinear <axis = 0> (w, ws, wz)
                [c] c = Conv (xd, wd)
                q = QuantizeLinear (c, s, z)
                d = DequantizeLinear (q, s, z)
                y = Relu (d)
            }
            """,
        ),
    )

    def check(self, facts: Facts, target: Target) -> Iterator[Fault]:
        """Look for pairs that a weighted operator feeds alone, and that feed one activation alone."""
        del target
        for pair in facts.qdq.pairs:
            data, uses = pair.quantize.data, pair.dequantize.uses
            if data is None or len(data.uses) != 1 or len(uses) != 1 or not _is_weighted(data.producer):
                continue
            behind = uses[0].node
            if behind.is_op(*FUSED) and uses[0].index == 0:
                assert data.producer is not None
                yield Fault(
                    message=f"this pair stands between {data.producer.op_type} and {behind.op_type}",
                    node=pair.quantize.node,
                    tensor=data,
                    found=f"{data.producer.op_type}, Q, DQ, {behind.op_type}",
                    expected=f"{data.producer.op_type}, {behind.op_type}, Q, DQ",
                )


def _is_weighted(node: NodeView | None) -> bool:
    known = ops.get(node) if node is not None else None
    return known is not None and known.weighted
