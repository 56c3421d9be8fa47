"""QL316: fp8 convolutions whose kernel has more than 32 elements."""

import pytest
from support.one_rule import findings, nodes

BOTH = "q = QuantizeLinear (x, s, z) d = DequantizeLinear (q, s, z) "


def convolutions(body: str, weight: str = "4, 4, 7, 7", codes: str = "float8e4m3fn") -> str:
    return f"""agraph (float[1,4,8,8] x, {codes}[{weight}] w, {codes}[] u, {codes}[4,4,1,1] small) => (float[] y)
    <float s = {{1}}, {codes} z = {{0}}> {{ v = DequantizeLinear (w, s) {body} }}"""


@pytest.mark.parametrize(
    ("model", "reported"),
    [
        (convolutions(BOTH + "[c] y = Conv (d, v)"), ["c"]),
        (convolutions(BOTH + "[c] y = Conv (d, v)", "4, 4, 4, 8"), []),
        (convolutions(BOTH + "[c] y = Conv (d, v)", "4, 4, 3, 11"), ["c"]),
        (convolutions(BOTH + "[c] y = Conv (d, v)", codes="int8"), []),
        (convolutions(BOTH + "[c] y = Conv (d, v)", codes="int64"), []),
        (convolutions("[c] y = Conv (x, v)"), []),
        (convolutions(BOTH + "u8 = DequantizeLinear (u, s) [c] y = Conv (d, u8)"), []),
        (convolutions(BOTH + "[a] e = Conv (x, v) [c] y = Conv (d, v)"), ["c"]),
    ],
)
def test_kernels(model: str, reported: list[str]):
    assert nodes("QL316", model) == reported
    assert {(each.tensor, each.found) for each in findings("QL316", model)} <= {("v", "float8e4m3fn")}
