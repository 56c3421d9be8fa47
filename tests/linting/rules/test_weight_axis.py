"""QA201: which weights have scales on the wrong axis, and who else reads them."""

import pytest
from support.one_rule import faults

HEAD = """
    agraph (float[2,2] x, int8[2,2] c) => (float[2,2] y)
    <float s = {0.1}, int8 z = {0}, int8[2,2] w = {1,2,3,4}, float[2] ws = {0.1, 0.2}>
"""
XD = "q = QuantizeLinear (x, s, z) xd = DequantizeLinear (q, s, z)"
WD = "wd = DequantizeLinear <axis = 0> (w, ws)"


@pytest.mark.parametrize(
    ("body", "messages"),
    [
        (f"{WD} [m] y = MatMul (xd, wd)", [("of MatMul 'm' has its scales on axis 0", True)]),
        # Both are wrong.
        (
            f"{WD} [m] a = MatMul (xd, wd) [n] b = MatMul (xd, wd) y = Add (a, b)",
            [("of MatMul 'm' has its scales on axis 0", True), ("of MatMul 'n' has its scales on axis 0", True)],
        ),
        # The first is wrong, and the second reads it rightly.
        (
            f"{WD} [m] a = MatMul (xd, wd) [g] b = Gemm <transB = 1> (xd, wd) y = Add (a, b)",
            [("of MatMul 'm' has its scales on axis 0, which fits only Gemm 'g'", False)],
        ),
        # One that reads it as its first operand is no reader of a weight.
        (
            f"{WD} [m] a = MatMul (xd, wd) [n] b = MatMul (wd, xd) y = Add (a, b)",
            [("of MatMul 'm' has its scales on axis 0", True)],
        ),
        # Not a weight: the rule about activations reports it.
        ("cd = DequantizeLinear <axis = 0> (c, ws) y = MatMul (xd, cd)", []),
        (
            f"cd = DequantizeLinear <axis = 0> (c, ws) a = MatMul (xd, cd) {WD} [m] y = MatMul (xd, wd)",
            [("of MatMul 'm' has its scales on axis 0", True)],
        ),
        (f"{WD} y = Gemm <transB = 1> (xd, wd)", []),
        (f"{WD} y = MatMul (xd, x)", []),
    ],
)
def test_the_axis_is_that_of_the_output_channels(body: str, messages: list[tuple[str, bool]]):
    found = faults("QA201", f"{HEAD} {{ {XD} {body} }}")

    assert [(finding.message, finding.fixable) for finding, _ in found] == [
        (f"the weight {message}", fixable) for message, fixable in messages
    ]
    for finding, _ in found:
        assert (finding.found, finding.expected, finding.tensor) == ("0", "axis 1", "w")
