"""QL307: which products around a Softmax are attention, which of their inputs have no pair, and what is not fused."""

import itertools

import onnx
import pytest
from support.one_rule import findings, parsed, without

from qdqtool.linting.rules.attention import MAX_STEPS

ROLES = ("queries", "keys", "Softmax", "values")


def attention(
    *,
    quantized: tuple[str, ...] = (),
    scaled: str = "scores = Identity (m)",
    passed: str = "p = Identity (f)",
    softmax: str = "f = Softmax (scores)",
    result: str = "y = Identity (r)",
    kind: str = "float",
    codes: str = "int8",
    head: object = 8,
    first: str = "",
) -> onnx.ModelProto:
    """Attention of ``a``, ``b`` and ``c`` with pairs at some of its inputs.

    Args:
        quantized: Which of :data:`ROLES` have a pair.
        scaled: Makes ``scores`` of ``m``, the product of queries and keys.
        passed: Makes ``p`` of ``f``, the output of Softmax.
        softmax: Makes ``f`` of ``scores``.
        result: Makes ``y`` of ``r``, the product with the values.
        kind: The type of all.
        codes: The type of the codes.
        head: The extent of a head.
        first: Nodes in front.
    """
    raw = {"float": "0.1", "float16": "11878", "bfloat16": "15821"}[kind]
    weight = ", ".join([raw] * 64)

    def pair(role: str, name: str) -> tuple[str, str]:
        if role not in quantized:
            return "", name
        return f"{name}q = QuantizeLinear ({name}, s, z) {name}d = DequantizeLinear ({name}q, s, z)", f"{name}d"

    (qa, a), (qb, b), (qp, p), (qc, c) = (pair(role, name) for role, name in zip(ROLES, "abpc", strict=True))
    return parsed(f"""
        agraph ({kind}[1,4,6,{head}] a, {kind}[1,4,{head},6] b, {kind}[1,4,6,{head}] c, {kind}[1,4,6,6] mask) => (y)
        <{kind} s = {{{raw}}}, {codes} z = {{0}}, {kind} half = {{{raw}}}, {kind}[8,8] w = {{{weight}}}> {{
            {first} {qa} {qb} m = MatMul ({a}, {b}) {scaled} {softmax} {passed} {qp} {qc} [pv] r = MatMul ({p}, {c})
            {result}
        }}""")


@pytest.mark.parametrize("choice", range(16))
def test_all_four_inputs_are_quantized_or_none(choice: int):
    quantized = tuple(role for at, role in enumerate(ROLES) if choice >> at & 1)
    missing = [role for role in ROLES if role not in quantized]

    found = findings("QL307", attention(quantized=quantized))

    expected = [
        (f"this attention has no pair on {', '.join(missing)}", f"{len(quantized)} of 4 inputs quantized", "pv", "f")
    ]
    assert [(each.message, each.found, each.node, each.tensor) for each in found] == (
        expected if quantized and missing else []
    )
    assert all(each.expected == "all four, or none" for each in found)


PARTLY = ("queries", "keys")


@pytest.mark.parametrize(
    ("scaled", "is_attention"),
    [
        ("scores = Mul (m, half)", True),
        ("scores = Mul (half, m)", True),
        ("scores = Div (m, half)", True),
        ("scores = Add (m, mask)", True),
        ("scores = Add (mask, m)", True),
        ("scores = Add (, m)", True),
        ("t = Mul (m, half) scores = Add (mask, t)", True),
        ("n = Neg (mask) scores = Add (n, m)", True),
        ("n = Neg (mask) k = Mul (n, half) scores = Add (k, m)", True),
        ("b1 = Greater (mask, half) scores = Where (b1, m, mask)", True),
        ("t = Cast <to = 1> (m) scores = Cast <to = 1> (t)", True),
        ("scores = Relu (m)", False),
        ("scores = Neg (mask)", False),
        ("scores = Identity (mask)", False),
        ("scores = Add (scores, mask)", False),
        ("scores = Add (scores, m)", True),
    ],
)
def test_scores_may_be_scaled_and_masked(scaled: str, is_attention: bool):
    assert bool(findings("QL307", attention(quantized=PARTLY, scaled=scaled))) == is_attention


@pytest.mark.parametrize(
    ("passed", "is_attention"),
    [
        ("p = Identity (f)", True),
        ("p = Cast <to = 1> (f)", True),
        ("p = Dropout (f)", True),
        ("fq = QuantizeLinear (f, s, z) p = DequantizeLinear (fq, s, z)", True),
        ("p = Relu (f)", False),
        ("p = Transpose (f)", False),
        ("p = Identity (f) other = Neg (f)", False),
        ("p = MatMul (f, a)", False),
        ("u = Identity (f) p = Identity (mask)", False),
    ],
)
def test_only_the_product_reads_the_softmax(passed: str, is_attention: bool):
    found = findings("QL307", attention(quantized=PARTLY, passed=passed))

    assert bool([each for each in found if each.node == "pv"]) == is_attention


def test_the_softmax_is_the_first_operand():
    model = attention(quantized=PARTLY)
    assert findings("QL307", model)
    product = model.graph.node[-2]
    product.input[:] = product.input[::-1]
    assert findings("QL307", model) == []


def chain(start: str, end: str, count: int) -> str:
    names = [start, *(f"step{number}" for number in range(count - 1)), end]
    return " ".join(f"{made} = Identity ({read})" for read, made in itertools.pairwise(names))


@pytest.mark.parametrize("count", [MAX_STEPS - 1, MAX_STEPS, MAX_STEPS + 1])
def test_a_few_operators_may_stand_between(count: int):
    # The operators of the model itself are counted: an Identity behind the Softmax, and the product at the end.
    assert MAX_STEPS == 8
    assert bool(findings("QL307", attention(quantized=PARTLY, scaled=chain("m", "scores", count)))) == (
        count < MAX_STEPS
    )
    assert bool(findings("QL307", attention(quantized=PARTLY, passed=chain("f", "p", count)))) == (count < MAX_STEPS)


@pytest.mark.parametrize("other", ["Relu", "Sigmoid", "LogSoftmax"])
def test_another_function_between_two_products_is_no_attention(other: str):
    assert findings("QL307", attention(quantized=PARTLY, softmax=f"f = {other} (scores)")) == []


OTHERS = {
    "no product in front": "f0 = Softmax (mask) r0 = MatMul (f0, c)",
    "no product behind": "m0 = MatMul (a, b) f0 = Softmax (m0) r0 = Relu (f0)",
    "a weight": "m0 = MatMul (a, w) f0 = Softmax (m0) r0 = MatMul (f0, c)",
}


@pytest.mark.parametrize("other", OTHERS)
def test_a_softmax_elsewhere_does_not_end_the_walk(other: str):
    found = findings("QL307", attention(quantized=PARTLY, first=OTHERS[other]))

    assert [each.node for each in found] == ["pv"]


@pytest.mark.parametrize(
    ("first", "second"), [("a, w", "f, c"), ("w, a", "f, c"), ("a, b", "f, w"), ("w, w", "f, w"), ("a, b", "f, c")]
)
def test_a_product_with_a_weight_is_no_attention(first: str, second: str):
    model = parsed(f"""
        agraph (float[8,8] a, float[8,8] b, float[8,8] c) => (float[8,8] y)
        <float s = {{0.1}}, int8 z = {{0}}, float[8,8] w = {{{", ".join(["1"] * 64)}}}> {{
            m = MatMul ({first})
            p = Softmax (m)
            pq = QuantizeLinear (p, s, z)
            f = DequantizeLinear (pq, s, z)
            y = MatMul ({second})
        }}""")

    assert bool(findings("QL307", model)) == ("w" not in first + second)


@pytest.mark.parametrize("cut", [0, 1])
def test_damaged_products_are_no_error(cut: int):
    model = attention(quantized=PARTLY)
    for name in ("m", "r"):
        assert (
            findings("QL307", without(onnx.ModelProto.FromString(model.SerializeToString()), name, inputs=[cut]))
            is not None
        )
    assert findings("QL307", without(model, "f", outputs=True)) == []


@pytest.mark.parametrize(
    ("kind", "codes", "head", "found", "expected"),
    [
        ("float16", "float8e4m3fn", 256, None, None),
        ("float16", "float8e4m3fn", 257, "heads of size 257", "heads of size 256 or less"),
        ("bfloat16", "float8e4m3fn", 257, "heads of size 257", "heads of size 256 or less"),
        ("float16", "float8e4m3fn", 48, None, None),
        ("float16", "float8e4m3fn", "N", None, None),
        ("float16", "int8", 257, "heads of size 257", "heads of size 256 or less"),
        ("float16", "int8", 16, None, None),
        ("float16", "int8", 17, "int8 heads of size 17", "heads of size 16, 32 or 64, or float8e4m3fn"),
        ("float16", "int8", 32, None, None),
        ("float16", "int8", 33, "int8 heads of size 33", "heads of size 16, 32 or 64, or float8e4m3fn"),
        ("float16", "int8", 64, None, None),
        ("bfloat16", "int8", 65, "int8 heads of size 65", "heads of size 16, 32 or 64, or float8e4m3fn"),
        ("float16", "int8", "N", None, None),
        ("float", "int8", 48, None, None),
        ("float", "int8", 300, None, None),
        ("float", "float8e4m3fn", 300, None, None),
    ],
)
def test_heads_of_the_fused_kernel(kind: str, codes: str, head: object, found: str | None, expected: str | None):
    quantized_again = "rq = QuantizeLinear (r, s, z) y = DequantizeLinear (rq, s, z)"
    model = attention(quantized=ROLES, kind=kind, codes=codes, head=head, result=quantized_again)

    told = findings("QL307", model, "tensorrt-rtx")

    assert [(each.message, each.found, each.expected) for each in told] == (
        [(f"this attention has {found}, for which there is no fused kernel", found, expected)] if found else []
    )
    assert findings("QL307", model, "tensorrt") == []


def test_heads_of_an_unknown_rank_are_not_judged():
    quantized_again = "rq = QuantizeLinear (r, s, z) y = DequantizeLinear (rq, s, z)"
    model = attention(quantized=ROLES, kind="float16", result=quantized_again)
    for value in model.graph.input:
        value.type.tensor_type.ClearField("shape")

    assert findings("QL307", model, "tensorrt-rtx") == []


@pytest.mark.parametrize(
    ("result", "is_read"),
    [
        ("y = QuantizeLinear (r, s, z)", True),
        ("y = QuantizeLinear (r, s, z) y2 = QuantizeLinear (r, s, z)", True),
        ("t = Transpose (r) y = QuantizeLinear (t, s, z)", True),
        ("t = Reshape (r, shape) y = QuantizeLinear (t, s, z)", True),
        ("n = Shape (r) t = Reshape (r, n) y = QuantizeLinear (t, s, z)", True),
        ("t = Transpose (r) n = Size (t) y = QuantizeLinear (t, s, z)", True),
        ("n = Shape (r) y2 = Size (r)", False),
        ("y = Identity (r)", False),
        ("y = Relu (r)", False),
        ("t = Relu (r) y = QuantizeLinear (t, s, z)", False),
        ("y = QuantizeLinear (r, s, z) y2 = Relu (r)", False),
        ("y = DequantizeLinear (r, s)", False),
        ("t = Transpose (r) y = QuantizeLinear (t, s, z) y2 = Relu (r)", False),
        ("t = Transpose (r) y = QuantizeLinear (t, s, z) y2 = Relu (t)", False),
        (f"{chain('r', 'last', MAX_STEPS - 1)} y = QuantizeLinear (last, s, z)", True),
        (f"{chain('r', 'last', MAX_STEPS)} y = QuantizeLinear (last, s, z)", False),
    ],
)
@pytest.mark.parametrize(("kind", "codes"), [("float16", "int8"), ("float", "float8e4m3fn")])
def test_the_result_is_quantized_again_where_the_kernel_needs_it(result: str, is_read: bool, kind: str, codes: str):
    model = attention(quantized=ROLES, kind=kind, codes=codes, head=16, result=result)

    told = [(each.found, each.expected) for each in findings("QL307", model, "tensorrt-rtx")]

    words = f"{codes} in {kind.replace('float', 'float32') if kind == 'float' else kind} and no pair on its result"
    assert told == ([] if is_read else [(words, "a pair on the result too")])


@pytest.mark.parametrize(
    ("kind", "codes", "is_told"),
    [
        ("float16", "int8", True),
        ("bfloat16", "int8", True),
        ("float", "int8", False),
        ("float16", "float8e4m3fn", False),
        ("bfloat16", "float8e4m3fn", False),
        ("float", "float8e4m3fn", True),
    ],
)
def test_a_float_result_is_told_where_the_kernel_makes_codes_alone(kind: str, codes: str, is_told: bool):
    model = attention(quantized=ROLES, kind=kind, codes=codes, head=16)

    assert bool(findings("QL307", model, "tensorrt-rtx")) == is_told
