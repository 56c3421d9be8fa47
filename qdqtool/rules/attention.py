"""QL307: attention that is quantized in parts."""

from collections.abc import Iterator

from qdqtool.graph.view import NodeView, Value
from qdqtool.rules._facts import Facts
from qdqtool.rules._reach import Product
from qdqtool.rules._rule import CAUTION, Example, Fault, Rule, impacts
from qdqtool.rules._words import kind
from qdqtool.targets import Target

MAX_STEPS = 8
MAX_HEAD = 256
SIXTEEN_BITS = frozenset({"float16", "bfloat16"})
TO_SOFTMAX = ("Add", "Cast", "Div", "Identity", "Mul", "Where")
FROM_SOFTMAX = ("Cast", "Dropout", "Identity")


class Attention(Rule):
    """Attention is quantized at all of its inputs or at none: queries, keys, the output of Softmax, values.

    Why it matters: one kernel computes both products and the Softmax between them, and it exists for operands of one
    type. With some of the four in fp8 or int8 and some not, the two products and the Softmax run one by one and write
    the whole matrix of scores to memory in between. In TensorRT for RTX that kernel exists for float16 and bfloat16,
    with float8e4m3fn on all four inputs or on none, and for heads of at most 256: int8 pairs take it away, and float32
    or larger heads never have it.

    Bad: pairs on queries and keys, none on the Softmax output and the values.

    Good: four pairs. The Softmax output lies between 0 and 1, so its scale can be fixed: 1/448 for float8e4m3fn. There
    is no fix: the ranges of the other three are known to a calibration only.
    """

    code = "QL307"
    name = "placement.attention"
    affects = impacts(tensorrt=CAUTION)
    remedy = "put pairs on all four inputs of the two products, or take all away"
    VALID = (
        Example(
            "fp8 in float16 (bits 11878 are 0.1), which is fused",
            """
            agraph (float16[1,4,64,64] a, float16[1,4,64,64] b, float16[1,4,64,64] c) => (float16[1,4,64,64] y)
            <float16 s = {11878}, float8e4m3fn z = {0}> {
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
            targets=("tensorrt-rtx",),
        ),
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
        Example(
            "int8 in float16 (bits 11878 are 0.1)",
            """
            agraph (float16[1,4,64,64] a, float16[1,4,64,64] b, float16[1,4,64,64] c) => (float16[1,4,64,64] y)
            <float16 s = {11878}, int8 z = {0}> {
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
            targets=("tensorrt-rtx",),
        ),
        Example(
            "heads of 320 in fp8",
            """
            agraph (float16[1,4,64,320] a, float16[1,4,320,64] b, float16[1,4,64,320] c) => (float16[1,4,64,320] y)
            <float16 s = {11878}, float8e4m3fn z = {0}> {
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
            targets=("tensorrt-rtx",),
        ),
        Example(
            "fp8 in float32",
            """
            agraph (float[1,4,64,64] a, float[1,4,64,64] b, float[1,4,64,64] c) => (float[1,4,64,64] y)
            <float s = {0.1}, float8e4m3fn z = {0}> {
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
            targets=("tensorrt-rtx",),
        ),
    )

    def check(self, facts: Facts, target: Target) -> Iterator[Fault]:
        """Look at the product in front of each Softmax and the one behind it."""
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
            elif not missing and target.id == "tensorrt-rtx":
                yield from _unfused(facts, first, second)


def _unfused(facts: Facts, first: Product, second: Product) -> Iterator[Fault]:
    """Why four pairs of this attention end in no fused kernel, if they do."""
    assert first.left is not None
    quantized, made = kind(first.left.dequantize.quantized_type), kind(facts.elem_type(first.node.output()))
    shape = facts.shape(first.node.input(0))
    head = shape[-1] if shape else None
    if made in SIXTEEN_BITS and isinstance(head, int) and head > MAX_HEAD:
        found, expected = f"heads of {head}", f"heads of at most {MAX_HEAD}"
    elif made in SIXTEEN_BITS and quantized == "int8":
        found, expected = f"int8 in {made}", "float8e4m3fn, or no pairs"
    elif made == "float32" and quantized == "float8e4m3fn":
        found, expected = "float8e4m3fn in float32", "float16 or bfloat16 around the pairs"
    else:
        return
    yield Fault(
        message=f"this attention has {found}, for which there is no fused kernel",
        node=second.node,
        tensor=second.node.input(0),
        found=found,
        expected=expected,
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
