"""QL313: a Cast between a weight's DQ and its consumer."""

from collections.abc import Iterator

from qdqtool.rules._facts import Facts
from qdqtool.rules._rule import FALLBACK, Example, Fault, Rule, impacts
from qdqtool.targets import Target


class CastAfterWeight(Rule):
    """A weight's DQ feeds its consumer without a Cast between.

    Why it matters: TensorRT does not look for quantized operands behind a Cast; the weight is turned into float and the
    layer is no int8 layer any more.

    Bad: DQ, Cast to float16, MatMul.

    Good: a float16 scale, so that the DQ makes float16.
    """

    code = "QL313"
    name = "placement.cast-after-weight"
    affects = impacts(tensorrt=FALLBACK)
    remedy = "store the scale in the wanted type, or set output_dtype (opset 23), and drop the Cast"
    VALID = (
        Example(
            "a float16 scale (bits 11878 are 0.1)",
            """
            agraph (float16[1,2] x) => (float16[1,2] y) <int8[2,2] w = {1,2,3,4}, float16 ws = {11878}, int8 wz = {0}> {
                wd = DequantizeLinear (w, ws, wz)
                y = MatMul (x, wd)
            }
            """,
        ),
    )
    INVALID = (
        Example(
            "a Cast to float16",
            """
            agraph (float16[16,64] x) => (float16[16,64] y)
            <float16 s = {11878}, int8 z = {0}, float ws = {0.1}, int64[2] n = {64, 64}> {
                q = QuantizeLinear (x, s, z)
                xd = DequantizeLinear (q, s, z)
                w = ConstantOfShape <value = float[1] {0.5}> (n)
                wq = QuantizeLinear (w, ws, z)
                wd = DequantizeLinear (wq, ws, z)
                wc = Cast <to = 10> (wd)
                [m] y = MatMul (xd, wc)
            }
            """,
        ),
    )

    def check(self, facts: Facts, target: Target) -> Iterator[Fault]:
        """Look at the weight operand of each weighted operator."""
        del target
        for product in facts.products:
            node = product.node
            value = node.input(product.weight_index)
            cast = value.producer if value is not None else None
            if cast is None or not cast.is_op("Cast"):
                continue
            entry = facts.qdq.dequantizer_of(cast.input(0))
            if entry is not None and facts.qdq.is_weight(entry):
                yield Fault(
                    message=f"Cast '{cast.label}' stands between this DQ and {node.op_type} '{node.label}'",
                    node=entry.node,
                    tensor=value,
                    found="Cast",
                    expected=f"the DQ wired to the {node.op_type}",
                )
