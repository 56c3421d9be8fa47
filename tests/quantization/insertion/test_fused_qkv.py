"""What is one product for queries, keys and values, and what only looks like one."""

import pytest
from support.qdq import text_model

from qdqtool.models.graph.index.model_index import ModelIndex
from qdqtool.quantization.insertion.fused_qkv import is_fused_qkv

STORED = """<int64[3] thirds = {6, 6, 6}, int64[3] uneven = {4, 8, 6}, int64[1] o = {0}, int64[1] l = {2},
    int64[1] six = {6}, int64[1] twelve = {12}, int64[1] end = {18}, int64 zero = {0}, int64 one = {1}, int64 two = {2},
    int64[4] apart = {6, 3, 6, 1}, float f = {0.5}, int8 z = {0}>"""


def fused(body: str, *, opset: int = 18) -> bool:
    """Whether the first product of a graph is one for all three; its result is called ``all``."""
    text = f"""<ir_version: 10, opset_import: ["": {opset}, "other": 1]>
        g (float[6,6] x, float[6,18] w, float[6,6] p, float[6,6] q, int64[3] given) => (float y) {STORED}
        {{ all = MatMul(x, w) {body} }}"""
    index = ModelIndex.of(text_model(text))
    return is_fused_qkv(next(index.view.nodes()), index.constants)


SPLIT = "a, b, c = Split<axis = -1, num_outputs = 3>(all)"
USED = "t = Transpose(b)  s = MatMul(a, t)  y = MatMul(s, c)"
SLICES = "a = Slice(all, o, six, l)  b = Slice(all, six, twelve, l)  c = Slice(all, twelve, end, l)"

FUSED = {
    "a Split": f"{SPLIT}  {USED}",
    "a Split of given lengths": f"a, b, c = Split<axis = -1>(all, thirds)  {USED}",
    "Slices": f"{SLICES}  {USED}",
    "Gathers behind a Reshape": f"""r = Reshape(all, apart)  a = Gather<axis = 1>(r, zero)  b = Gather<axis = 1>(r, one)
        c = Gather<axis = 1>(r, two)  {USED}""",
    "a bias and a scale in between": """d = Add(all, f)  a, b, c = Split<axis = -1, num_outputs = 3>(d)  m = Mul(a, f)
        n = Div(b, f)  t = Transpose(n)  e = Neg(m)  s = MatMul(e, t)  v = Sub(c, f)  y = MatMul(s, v)""",
    "pairs in between": f"""i = QuantizeLinear(all, f, z)  j = DequantizeLinear(i, f, z)
        a, b, c = Split<axis = -1, num_outputs = 3>(j)  {USED}""",
    "a Cast and a Concat in between": f"{SPLIT}  d = Cast<to = 1>(a)  e = Concat<axis = 0>(d, p)  t = Transpose(b)"
    "  s = MatMul(e, t)  y = MatMul(s, c)",
    "two attentions": f"{SPLIT}  {USED}  s2 = MatMul(a, t)  y2 = MatMul(s2, c)",
}

NOT_FUSED = {
    "nothing behind": "y = Exp(all)",
    "no attention": f"{SPLIT}  d = Mul(a, b)  y = Mul(d, c)",
    "one operand of each": f"{SPLIT}  s = MatMul(a, p)  y = MatMul(s, q)  v = MatMul(b, q)",
    "no values": f"{SPLIT}  t = Transpose(b)  y = MatMul(a, t)",
    "two parts": "a, b = Split<axis = -1, num_outputs = 2>(all)  t = Transpose(b)  s = MatMul(a, t)  y = MatMul(s, b)",
    "two parts, by slices": """a = Slice(all, o, six, l)  b = Slice(all, six, twelve, l)  t = Transpose(b)
        s = MatMul(a, t)  y = MatMul(s, b)""",
    "four parts, by slices": f"{SLICES}  d = Slice(all, o, twelve, l)  {USED}",
    "another operator with three outputs": """a = Slice(all, o, six, l)  b = Slice(all, six, twelve, l)
        t = Transpose(b)  s = MatMul(a, t)  y = MatMul(s, b)  c, d, e = other.Three(all)""",
    "uneven parts": f"a, b, c = Split<axis = -1>(all, uneven)  {USED}",
    "lengths that are not known": f"a, b, c = Split<axis = -1>(all, given)  {USED}",
    "a Split of something else": f"a, b, c = Split<axis = -1>(x, all)  {USED}",
    "products of matrices alone": f"{SPLIT}  t = Transpose(b)  s = Gemm(a, t)  y = Gemm(s, c)",
    "convolutions": f"{SPLIT}  s = Conv(a, b)  y = Conv(s, c)",
    "queries and keys that are computed": f"{SPLIT}  e = Exp(a)  t = Transpose(b)  s = MatMul(e, t)  y = MatMul(s, c)",
}


@pytest.mark.parametrize("name", FUSED)
def test_a_product_that_is_cut_in_three_for_an_attention(name: str) -> None:
    assert fused(FUSED[name])


@pytest.mark.parametrize("name", NOT_FUSED)
def test_other_products(name: str) -> None:
    assert not fused(NOT_FUSED[name])


@pytest.mark.parametrize(("lengths", "even"), [("6, 6, 6", True), ("6, 6, 7", False)])
def test_lengths_that_are_an_attribute(lengths: str, even: bool) -> None:
    assert fused(f"a, b, c = Split<axis = -1, split = [{lengths}]>(all)  {USED}", opset=12) == even


@pytest.mark.parametrize(("steps", "found"), [(123, True), (124, False)])
def test_a_limited_number_of_tensors_is_followed(steps: int, found: bool) -> None:
    """Beside the steps: the product, its three parts, and one of them transposed."""
    between = "".join(f" i{n + 1} = Identity({f'i{n}' if n else 'all'})" for n in range(steps))
    assert fused(f"{between}  {SPLIT.replace('all', f'i{steps}')}  {USED}") == found
