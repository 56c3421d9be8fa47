"""QT405: int8 and fp8 in one operator."""

from collections.abc import Iterator

from qdqtool.rules._facts import Facts
from qdqtool.rules._rule import REFUSED, Example, Fault, Rule, impacts
from qdqtool.rules._words import kind
from qdqtool.targets import Target


class MixedFormats(Rule):
    """The operands of one Conv, Gemm or MatMul are both int8 or both fp8.

    Why it matters: no kernel multiplies one with the other; the builder stops deep inside with "Input and filter have
    to be the same type". Different layers of a network may use different types.

    Bad: an int8 activation and an fp8 weight.

    Good: int8 for both.
    """

    code = "QT405"
    name = "target.mixed-formats"
    affects = impacts(tensorrt=REFUSED)
    remedy = "quantize both operands to one type"
    VALID = (
        Example(
            "fp8 for both",
            """
            agraph (float[1,2] x) => (float[1,2] y)
            <float s = {0.1}, float8e4m3fn z = {0}, float8e4m3fn[2,2] w = {56,56,56,56}> {
                q = QuantizeLinear (x, s, z)
                xd = DequantizeLinear (q, s, z)
                wd = DequantizeLinear (w, s, z)
                y = MatMul (xd, wd)
            }
            """,
        ),
    )
    INVALID = (
        Example(
            "int8 times fp8",
            """
            agraph (float[1,2] x) => (float[1,2] y)
            <float s = {0.1}, int8 z = {0}, float8e4m3fn wz = {0}, float8e4m3fn[2,2] w = {56,56,56,56}> {
                q = QuantizeLinear (x, s, z)
                xd = DequantizeLinear (q, s, z)
                wd = DequantizeLinear (w, s, wz)
                y = MatMul (xd, wd)
            }
            """,
        ),
    )

    def check(self, facts: Facts, target: Target) -> Iterator[Fault]:
        """Compare the quantized types behind the two operands."""
        del target
        for product in facts.products:
            sides = (product.left, product.right)
            types = [kind(side.dequantize.quantized_type) for side in sides if side is not None]
            if set(types) == {"int8", "float8e4m3fn"}:
                yield Fault(
                    message=f"{product.node.op_type} multiplies {types[0]} with {types[1]}",
                    node=product.node,
                    tensor=product.node.input(product.weight_index),
                    found=" and ".join(types),
                    expected="one type",
                )
