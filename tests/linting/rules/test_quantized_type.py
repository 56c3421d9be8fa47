"""Which node has the finding about a type that the target has no use for, and how bad it is."""

import pytest
from support.fixing import located, read

from qdqtool.linting.rules import RuleContext

CODE = "QP103"


def said(context: RuleContext, target: str = "tensorrt") -> list[tuple[str, str, str]]:
    return [(finding.message, str(finding.tensor), finding.effect) for finding, _ in located(CODE, context, target)]


MODEL = """
agraph (float[1,2,2,2] x, uint8[4] c) => (float[1,2,2,2] y)
<float s = {{0.5}}, uint8 u = {{0}}, int16 h = {{0}}, int8 z = {{0}}, int32 i = {{0}}, int8[2,2,1,1] w = {{1,2,3,4}},
 int32[2] b = {{1, 2}}, uint8[2] ub = {{1, 2}}> {{
    {nodes}
}}
"""


@pytest.mark.parametrize(
    ("nodes", "found"),
    [
        ("q = QuantizeLinear (x, s, z)  y = DequantizeLinear (q, s, z)", []),
        ("q = QuantizeLinear (x, s, u)  y = DequantizeLinear (q, s, u)", [("this Q makes uint8", "q", "silent")]),
        ("q = QuantizeLinear (x, s, h)  y = DequantizeLinear (q, s, h)", [("this Q makes int16", "q", "refused")]),
        (
            "q = QuantizeLinear <output_dtype = 2> (x, s)  y = DequantizeLinear (q, s)",
            [("this Q makes uint8", "q", "refused")],
        ),
        # Another rule has a Q without a type, and one has zero points of no quantized type.
        ("q = QuantizeLinear (x, s)  y = DequantizeLinear (q, s)", []),
        ("q = QuantizeLinear (x, s, i)  y = DequantizeLinear (q, s)", []),
        ("y = DequantizeLinear (c, s, u)", [("this DQ reads uint8", "c", "refused")]),
        (
            "q = QuantizeLinear (x, s, u)  t = Transpose (q)  y = DequantizeLinear (t, s)",
            [("this Q makes uint8", "q", "silent")],
        ),
        (
            "q = QuantizeLinear (x, s, u)  r = QuantizeLinear (q, s, u)  y = DequantizeLinear (r, s)",
            [("this Q makes uint8", "q", "silent"), ("this Q makes uint8", "r", "silent")],
        ),
        # Another rule has int32 biases.
        ("d = DequantizeLinear (b, s)  y = Conv (x, w, d)", []),
        ("d = DequantizeLinear (b, s)  y = Add (x, d)", [("this DQ reads int32", "b", "refused")]),
        ("d = DequantizeLinear (ub, s)  y = Conv (x, w, d)", [("this DQ reads uint8", "ub", "refused")]),
        ("m = local.Unknown (x)  d = DequantizeLinear (m, s)  y = Neg (d)", []),
    ],
)
def test_who_has_the_finding(nodes: str, found: list[tuple[str, str, str]]):
    assert said(read(MODEL.format(nodes=nodes))) == found


def test_a_release_that_refuses_uint8_does_not_compute_it_as_int8():
    context = read(MODEL.format(nodes="q = QuantizeLinear (x, s, u)  y = DequantizeLinear (q, s, u)"))

    assert said(context, "tensorrt-10.7") == [("this Q makes uint8", "q", "refused")]


@pytest.mark.parametrize(("target", "count"), [("tensorrt", 2), ("ort-cpu", 0), ("onnx", 0)])
def test_fixes_are_offered_for_tensorrt(target: str, count: int):
    context = read(MODEL.format(nodes="q = QuantizeLinear (x, s, u)  y = DequantizeLinear (q, s, u)"))
    found = located(CODE, context, target)

    assert [len(fault.fixes) for _, fault in found] == [count] * bool(count)


def test_the_cpu_has_no_kernel_for_fp4():
    context = read(MODEL.format(nodes="q = QuantizeLinear <output_dtype = 23> (x, s)  y = DequantizeLinear (q, s)"))
    ((finding, fault),) = located(CODE, context, "ort-cpu")

    assert (finding.message, fault.fixes) == ("this Q makes float4e2m1", ())
    assert located(CODE, context, "tensorrt") == []
