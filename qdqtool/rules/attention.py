"""QL307: attention that is quantized in parts."""

from collections.abc import Iterator

from qdqtool.graph.view import NodeView, Value
from qdqtool.rules._facts import Facts
from qdqtool.rules._reach import Product
from qdqtool.rules._rule import CAUTION, Example, Fault, Rule, impacts
from qdqtool.targets import Target

MAX_STEPS = 8
TO_SOFTMAX = ("Add", "Cast", "Div", "Identity", "Mul", "Where")
FROM_SOFTMAX = ("Cast", "Dropout", "Identity")


class Attention(Rule):
    """Attention is quantized at all of its inputs or at none: queries, keys, the output of Softmax, values.

    Why it matters: one kernel computes both products and the Softmax between them, and it exists for operands of one
    type. With some of the four in fp8 or int8 and some not, the two products and the Softmax run one by one and write
    the whole matrix of scores to memory in between.

    Bad: pairs on queries and keys, none on the Softmax output and the values.

    Good: four pairs. The Softmax output lies between 0 and 1, so its scale can be fixed: 1/448 for float8e4m3fn.
    """

    code = "QL307"
    name = "placement.attention"
    affects = impacts(tensorrt=CAUTION)
    remedy = "put pairs on all four inputs of the two products, or take all away"
    VALID = (
        Example(
            "all four inputs",
            """
            agraph (float[1,4,8] a, float[1,8,4] b, float[1,4,8] c) => (float[1,4,8] y)
            <float s = {0.1}, int8 z = {0}> {
                aq = QuantizeLinear (a, s, z)
                ad = DequantizeLinear (aq, s, z)
                bq = QuantizeLinear (b, s, z)
                bd = DequantizeLinear (bq, s, z)
                scores = MatMul (ad, bd)
                p = Softmax (scores)
                pq = QuantizeLinear (p, s, z)
                pd = DequantizeLinear (pq, s, z)
                cq = QuantizeLinear (c, s, z)
                cd = DequantizeLinear (cq, s, z)
                y = MatMul (pd, cd)
            }
            """,
        ),
        Example(
            "no input",
            """
            agraph (float[1,4,8] a, float[1,8,4] b, float[1,4,8] c) => (float[1,4,8] y) {
                scores = MatMul (a, b)
                p = Softmax (scores)
                y = MatMul (p, c)
            }
            """,
        ),
    )
    INVALID = (
        Example(
            "queries and keys alone",
            """
            agraph (float[1,4,8] a, float[1,8,4] b, float[1,4,8] c) => (float[1,4,8] y)
            <float s = {0.1}, int8 z = {0}, float half = {0.5}> {
                aq = QuantizeLinear (a, s, z)
                ad = DequantizeLinear (aq, s, z)
                bq = QuantizeLinear (b, s, z)
                bd = DequantizeLinear (bq, s, z)
                m = MatMul (ad, bd)
                scores = Mul (m, half)
                p = Softmax (scores)
                y = MatMul (p, c)
            }
            """,
        ),
    )

    def check(self, facts: Facts, target: Target) -> Iterator[Fault]:
        """Look at the product in front of each Softmax and the one behind it."""
        del target
        products = {product.node: product for product in facts.products if product.node.is_op("MatMul")}
        for node in facts.nodes:
            if not node.is_op("Softmax"):
                continue
            before, behind = _before(node.input(0)), _behind(facts, node.output())
            if before is None or behind is None:
                continue
            first, second = products[before], products[behind]
            if not _multiplies_data(facts, first, second):
                continue
            places = {"queries": first.left, "keys": first.right, "Softmax": second.left, "values": second.right}
            missing = [name for name, side in places.items() if side is None]
            if 0 < len(missing) < len(places):
                yield Fault(
                    message=f"this attention has no pair on {', '.join(missing)}",
                    node=second.node,
                    tensor=node.output(),
                    found=f"{len(places) - len(missing)} of 4 inputs quantized",
                    expected="all four, or none",
                )


def _before(value: Value | None) -> NodeView | None:
    """The MatMul whose scaled and masked product ``value`` is."""
    for _ in range(MAX_STEPS):
        node = value.producer if value is not None else None
        if node is None or node.is_op("MatMul"):
            return node
        if not node.is_op(*TO_SOFTMAX):
            return None
        inputs = (node.input(index) for index in range(len(node.proto.input)))
        value = next((each for each in inputs if each is not None and each.producer is not None), None)
    return None


def _behind(facts: Facts, value: Value | None) -> NodeView | None:
    """The MatMul that reads ``value``, with or without a pair on the way."""
    for _ in range(MAX_STEPS):
        if value is None or len(value.uses) != 1:
            return None
        use = value.uses[0]
        if use.node.is_op("MatMul"):
            return use.node if use.index == 0 else None
        if facts.qdq.get(use.node) is None and not use.node.is_op(*FROM_SOFTMAX):
            return None
        value = use.node.output()
    return None


def _multiplies_data(facts: Facts, *products: Product) -> bool:
    values = (product.node.input(index) for product in products for index in (0, 1))
    return not any(value is not None and facts.is_constant(value) for value in values)
