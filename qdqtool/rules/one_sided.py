"""QL302: operators of which only one side is quantized."""

from collections.abc import Iterator

from qdqtool.graph.view import NodeView
from qdqtool.ops import QuantizableOp
from qdqtool.rules._facts import Facts
from qdqtool.rules._reach import Operand, operand
from qdqtool.rules._rule import FALLBACK, Example, Fault, Rule, impacts
from qdqtool.targets import Target


class OneSided(Rule):
    """Both operands of a Conv, Gemm or MatMul are quantized, or neither, or (of Gemm and MatMul) the weight alone.

    Why it matters: int8 and fp8 kernels need both operands in that type. With one of them in float the layer runs in
    float, and the pair costs time and accuracy for nothing.

    Bad: a pair on the input of a Conv whose weight stays float.

    Good: a pair on both. Weight-only quantization of a MatMul is fine: the weight stays small.
    """

    code = "QL302"
    name = "placement.one-sided"
    affects = impacts(tensorrt=FALLBACK)
    remedy = "put a pair on the other operand too, or take this one away"
    VALID = (
        Example(
            "activation and weight",
            """
            agraph (float[1,2] x) => (float[1,2] y)
            <float s = {0.1}, int8 z = {0}, int8[2,2] w = {1,2,3,4}, float[2] ws = {0.1, 0.2}, int8[2] wz = {0,0}> {
                q = QuantizeLinear (x, s, z)
                xd = DequantizeLinear (q, s, z)
                wd = DequantizeLinear <axis = 1> (w, ws, wz)
                y = MatMul (xd, wd)
            }
            """,
        ),
        Example(
            "the weight of a MatMul alone",
            """
            agraph (float[1,2] x) => (float[1,2] y)
            <int8[2,2] w = {1,2,3,4}, float[2] ws = {0.1, 0.2}, int8[2] wz = {0,0}> {
                wd = DequantizeLinear <axis = 1> (w, ws, wz)
                y = MatMul (x, wd)
            }
            """,
        ),
    )
    INVALID = (
        Example(
            "a Conv with a float weight",
            """
            agraph (float[1,1,2,2] x) => (float[1,1,2,2] y) <float s = {0.1}, int8 z = {0}, float[1,1,1,1] w = {0.5}> {
                q = QuantizeLinear (x, s, z)
                xd = DequantizeLinear (q, s, z)
                [c] y = Conv (xd, w)
            }
            """,
        ),
        Example(
            "a Conv with a float activation",
            """
            agraph (float[1,2,2,2] x) => (float[1,2,2,2] y)
            <int8[2,2,1,1] w = {1,2,3,4}, float[2] ws = {0.1, 0.2}, int8[2] wz = {0,0}> {
                wd = DequantizeLinear <axis = 0> (w, ws, wz)
                [c] y = Conv (x, wd)
            }
            """,
        ),
    )

    def check(self, facts: Facts, target: Target) -> Iterator[Fault]:
        """Compare the two operands of each weighted operator."""
        del target
        for node, op in facts.weighted:
            assert op.weight_input is not None
            left = operand(facts, node.input(op.activation_inputs[0]))
            right = operand(facts, node.input(op.weight_input))
            if (left is None) != (right is None) and not _weight_only(facts, node, op, left or right):
                quantized = 0 if left is not None else op.weight_input
                other = op.weight_input if left is not None else 0
                yield Fault(
                    message=f"{_side(facts, node, quantized)} is quantized, {_side(facts, node, other)} is not",
                    node=node,
                    tensor=node.input(other),
                    found="one operand quantized",
                    expected="both or neither",
                )


def _weight_only(facts: Facts, node: NodeView, op: QuantizableOp, found: Operand | None) -> bool:
    matrix = node.is_op("MatMul", "Gemm") and op.weighted
    return matrix and found is not None and facts.qdq.is_weight(found.dequantize)


def _side(facts: Facts, node: NodeView, index: int) -> str:
    value = node.input(index)
    found = operand(facts, value)
    constant = facts.qdq.is_weight(found.dequantize) if found else value is not None and facts.is_constant(value)
    return f"the {'weight' if constant else 'activation'} '{node.input_name(index)}'"
