"""QA204: the elements of 4-bit tensors are counted, and for old releases those of the last dimension."""

import pytest
from support.one_rule import findings, messages, nodes


def quantized(shape: str, kind: str = "int4") -> str:
    return f"""agraph (float[{shape}] x) => (float[{shape}] y) <float s = {{1}}, {kind} z = {{0}}> {{
        q = QuantizeLinear (x, s, z)
        y = DequantizeLinear (q, s, z)
    }}"""


def odd(shape: str, kind: str, what: str) -> str:
    return f"{kind} tensor of shape [{shape}]: {what}"


@pytest.mark.parametrize("kind", ["int4", "uint4", "float4e2m1", "int8", "float8e4m3fn", "int2"])
@pytest.mark.parametrize(
    ("shape", "elements", "last"),
    [
        ("2, 4", None, None),
        ("3, 3", 9, 9),
        ("2, 3", None, 3),
        ("3, 2", None, None),
        ("2, 2, 3", None, 3),
        ("2, 3, 2", None, None),
        ("4, 3, 5", None, 5),
        ("1", 1, 1),
        ("5", 5, 5),
        ("N, 3", None, None),
        ("3, ?", None, None),
    ],
)
def test_counts(kind: str, shape: str, elements: int | None, last: int | None):
    narrow = kind in {"int4", "uint4", "float4e2m1"}
    every = [odd(shape, kind, f"the number of elements is {elements}")] if elements and narrow else []
    row = [odd(shape, kind, f"the last dimension is {last}")] if last and narrow and not elements else []

    assert messages("QA204", quantized(shape, kind), "tensorrt") == every
    assert messages("QA204", quantized(shape, kind), "tensorrt-10.5") == every + row


def test_a_scalar_is_one_element():
    model = "agraph (float x) => (float y) <float s = {1}, int4 z = {0}> { y = QuantizeLinear (x, s, z) }"
    for target in ("tensorrt", "tensorrt-10.5"):
        assert messages("QA204", model, target) == ["int4 tensor of shape []: the number of elements is 1"]


def test_a_tensor_of_unknown_rank_is_not_counted():
    model = "agraph (float[] x) => (float[] y) <float s = {1}, int4 z = {0}> { q = QuantizeLinear (x, s, z) }"
    assert messages("QA204", model) == []


def test_the_codes_of_a_pair_are_reported_once_at_the_q_and_nothing_hides_what_follows():
    model = """
    agraph (float[3,3] x, float[N] n) => (float[3,3] y, float[3] v)
    <float s = {1}, int8 z = {0}, int4 z4 = {0}, int4[3] w = {33, 3}> {
        [int8] a = QuantizeLinear (x, s, z)
        [open] b = QuantizeLinear (n, s, z4)
        [q] c = QuantizeLinear (x, s, z4)
        [dq] y = DequantizeLinear (c, s, z4)
        [stored] v = DequantizeLinear (w, s, z4)
    }"""
    found = findings("QA204", model)

    assert nodes("QA204", model) == ["q", "stored"]
    assert [(each.tensor, each.found, each.expected) for each in found] == [
        ("c", "9", "an even number"),
        ("w", "3", "an even number"),
    ]
