"""QL307: attention that is quantized in parts."""

from qdqtool.linting.rules.support.reach import Product
from qdqtool.linting.rules.support.rule import CAUTION, Fault, Faults, Rule, examples, impacts
from qdqtool.linting.rules.support.rule_context import RuleContext
from qdqtool.linting.rules.support.words import kind
from qdqtool.models import ops
from qdqtool.models.graph.index.view import NodeView, Value
from qdqtool.models.targets import Target

MAX_STEPS = 8
MAX_HEAD = 256
INT8_HEADS = frozenset({16, 32, 64})
SIXTEEN_BITS = frozenset({"float16", "bfloat16"})
# The pattern that TensorRT recognizes as attention: scaling, mask and bias may come between product and Softmax.
TO_SOFTMAX = ("Add", "Cast", "Div", "Identity", "Mul", "Where")

FOUR_PAIRS = """aq = QuantizeLinear (a, s, z)
                ad = DequantizeLinear (aq, s, z)
                bq = QuantizeLinear (b, s, z)
                bd = DequantizeLinear (bq, s, z)
                scores = MatMul (ad, bd)
                p = Softmax (scores)
                pq = QuantizeLinear (p, s, z)
                pd = DequantizeLinear (pq, s, z)
                cq = QuantizeLinear (c, s, z)
                cd = DequantizeLinear (cq, s, z)"""
"""Attention with pairs on all four operands, for examples."""


class Attention(Rule):
    """Attention is quantized at all of its inputs or at none: queries, keys, the output of Softmax, values.

    Why it matters: one fused kernel computes both products and the Softmax between them. The kernel exists only if all
    four operands have the same type. If only some of them are fp8 or int8, the products and the Softmax run one by one,
    and write the matrix of scores to memory. TensorRT for RTX has the kernel for float8e4m3fn with heads of at most
    256, and for int8 with heads of 16, 32 or 64. In int8, the result also needs a pair. In float8e4m3fn it needs a pair
    if the products are float32. If the next layer is quantized, the pair at its input is this pair.

    Bad: pairs on queries and keys, none on the Softmax output and the values.

    Good: four pairs, and one on the result. The Softmax output lies between 0 and 1, so its scale can be fixed: 1/448
    for float8e4m3fn. There is no fix: only a calibration finds the ranges of the other three.
    """

    code = "QL307"
    name = "placement.attention"
    affects = impacts(tensorrt=CAUTION)
    remedy = "put pairs on all four inputs of the two products, or remove all of them"
    VALID = examples(
        """
        fp8 in float16 (bits 11878 are 0.1), which is fused [tensorrt-rtx]:
            agraph (float16[1,4,64,64] a, float16[1,4,64,64] b, float16[1,4,64,64] c) => (float16[1,4,64,64] y)
            <float16 s = {11878}, float8e4m3fn z = {0}> {
                $FOUR_PAIRS
                y = MatMul (pd, cd)
            }
        int8 in float16 with a pair on the result, which is fused [tensorrt-rtx]:
            agraph (float16[1,4,64,64] a, float16[1,4,64,64] b, float16[1,4,64,64] c) => (float16[1,64,4,64] y)
            <float16 s = {11878}, int8 z = {0}> {
                $FOUR_PAIRS
                m = MatMul (pd, cd)
                t = Transpose <perm = [0, 2, 1, 3]> (m)
                tq = QuantizeLinear (t, s, z)
                y = DequantizeLinear (tq, s, z)
            }
        all four inputs:
            agraph (float[1,4,8] a, float[1,8,4] b, float[1,4,8] c) => (float[1,4,8] y)
            <float s = {0.1}, int8 z = {0}> {
                $FOUR_PAIRS
                y = MatMul (pd, cd)
            }
        no input:
            agraph (float[1,4,8] a, float[1,8,4] b, float[1,4,8] c) => (float[1,4,8] y) {
                scores = MatMul (a, b)
                p = Softmax (scores)
                y = MatMul (p, c)
            }
        """,
        FOUR_PAIRS=FOUR_PAIRS,
    )
    INVALID = examples(
        """
        queries and keys alone:
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
        int8 in float16 (bits 11878 are 0.1), and a float result [tensorrt-rtx]:
            agraph (float16[1,4,64,64] a, float16[1,4,64,64] b, float16[1,4,64,64] c) => (float16[1,4,64,64] y)
            <float16 s = {11878}, int8 z = {0}> {
                $FOUR_PAIRS
                y = MatMul (pd, cd)
            }
        heads of 320 in fp8 [tensorrt-rtx]:
            agraph (float16[1,4,64,320] a, float16[1,4,320,64] b, float16[1,4,64,320] c) => (float16[1,4,64,320] y)
            <float16 s = {11878}, float8e4m3fn z = {0}> {
                $FOUR_PAIRS
                y = MatMul (pd, cd)
            }
        fp8 in float32, and a float result [tensorrt-rtx]:
            agraph (float[1,4,64,64] a, float[1,4,64,64] b, float[1,4,64,64] c) => (float[1,4,64,64] y)
            <float s = {0.1}, float8e4m3fn z = {0}> {
                $FOUR_PAIRS
                y = MatMul (pd, cd)
            }
        """,
        FOUR_PAIRS=FOUR_PAIRS,
    )

    def check(self, context: RuleContext, target: Target) -> Faults:
        """Look at the product before each Softmax and the product after it."""
        products = {product.node: product for product in context.products if product.node.is_op("MatMul")}
        for node in context.nodes:
            if not node.is_op("Softmax"):
                continue
            before, behind = _before(node.input(0)), _behind(context, node.output())
            if before is None or behind is None:
                continue
            first, second = products[before], products[behind]
            if not _multiplies_data(context, first, second):
                continue
            places = {"queries": first.left, "keys": first.right, "Softmax": second.left, "values": second.right}
            missing = [name for name, side in places.items() if side is None]
            if 0 < len(missing) < len(places):
                message = f"this attention has no pair on {', '.join(missing)}"
                found = f"{len(places) - len(missing)} of 4 inputs quantized"
                yield Fault(message, second.node, node.output(), found=found, expected="all four, or none")
            elif not missing and target.id == "tensorrt-rtx":
                yield from _unfused(context, first, second)


def _unfused(context: RuleContext, first: Product, second: Product) -> Faults:
    """Yield a fault if there is no fused kernel for this attention with four pairs."""
    assert first.left is not None
    quantized, made = kind(first.left.dequantize.quantized_type), kind(context.elem_type(first.node.output()))
    shape = context.shape(first.node.input(0))
    head = shape[-1] if shape else None
    if made in SIXTEEN_BITS and isinstance(head, int) and head > MAX_HEAD:
        found, expected = f"heads of size {head}", f"heads of size {MAX_HEAD} or less"
    elif made in SIXTEEN_BITS and quantized == "int8" and isinstance(head, int) and head not in INT8_HEADS:
        found, expected = f"int8 heads of size {head}", "heads of size 16, 32 or 64, or float8e4m3fn"
    elif _needs_codes(quantized, made) and not _is_quantized_again(context, second.node.output()):
        found, expected = f"{quantized} in {made} and no pair on its result", "a pair on the result too"
    else:
        return
    message = f"this attention has {found}, for which there is no fused kernel"
    yield Fault(message, second.node, second.node.input(0), found=found, expected=expected)


def _needs_codes(quantized: str, made: str) -> bool:
    """Return whether the fused kernel exists only with a quantized result."""
    # int8 in float32 has no fused kernel in any case: TensorRT for RTX runs two int8 products and a Softmax.
    return made in SIXTEEN_BITS if quantized == "int8" else made == "float32"


def _is_quantized_again(context: RuleContext, value: Value | None) -> bool:
    """Return whether only Qs read ``value``, directly or after operators that only move values."""
    for _ in range(MAX_STEPS):
        # Exporters read the shape of a tensor to flatten it. This does not read its values.
        uses = value.uses if value is not None else []
        readers = [use.node for use in uses if not use.node.is_op("Shape", "Size")]
        entries = [context.qdq.get(node) for node in readers]
        if readers and all(entry is not None and entry.is_quantize for entry in entries):
            return True
        if len(readers) != 1 or not ops.moves_values(readers[0]):
            return False
        value = readers[0].output()
    return False


def _before(value: Value | None) -> NodeView | None:
    """Return the nearest MatMul before ``value``, across operators that scale and mask."""
    # All inputs are followed: the mask may be computed too, and may be the first input.
    pending, seen = [value], set[NodeView]()
    while pending and len(seen) < MAX_STEPS:
        value = pending.pop(0)
        node = value.producer if value is not None else None
        if node is not None and node.is_op("MatMul"):
            return node
        if node is not None and node not in seen and node.is_op(*TO_SOFTMAX):
            seen.add(node)
            pending += node.inputs
    return None


def _behind(context: RuleContext, value: Value | None) -> NodeView | None:
    """Return the MatMul that reads ``value``, directly or through a pair."""
    for _ in range(MAX_STEPS):
        if value is None or len(value.uses) != 1:
            return None
        use = value.uses[0]
        if use.node.is_op("MatMul"):
            return use.node if use.index == 0 else None
        if context.qdq.get(use.node) is None and not ops.traits(use.node).passes_values:
            return None
        value = use.node.output()
    return None


def _multiplies_data(context: RuleContext, *products: Product) -> bool:
    values = (product.node.input(index) for product in products for index in (0, 1))
    return not any(value is not None and context.is_constant(value) for value in values)
