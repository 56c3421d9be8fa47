"""Which node has the finding about a type that the target has no use for, and where codes come from."""

import onnx.parser
import pytest
from support.fixing import located, read

from qdqtool.linting.rules import RuleContext
from qdqtool.linting.rules.quantized_type import CodeOrigin
from qdqtool.models.graph.model import Model

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


SOURCES = "q = QuantizeLinear (x, s, z) p = QuantizeLinear (x, s, z) cast = Cast <to = 3> (x)"


def either(branch: str, other: str) -> str:
    return f"""t = If (c) <then_branch = a () => (int8[2] m) {{ m = {branch} }},
        else_branch = b () => (int8[2] n) {{ n = {other} }}>"""


@pytest.mark.parametrize(
    ("body", "is_quantizers"),
    [
        ("t = QuantizeLinear (x, s, z)", True),
        ("t = Transpose (q)", True),
        ("t = Transpose (w)", False),
        ("t = Transpose (given)", False),
        ("t = Transpose (cast)", False),
        ("t = Transpose (nowhere)", False),
        ("t = Cast <to = 3> (x)", False),
        ("t = Cast <to = 3> (q)", False),
        ("t = Concat <axis = 0> (q, p)", True),
        ("t = Concat <axis = 0> (q, w)", False),
        ("t = Concat <axis = 0> (w, q)", False),
        # Every source is looked at, also behind one that is met twice.
        ("t = Concat <axis = 0> (q, q)", True),
        ("t = Concat <axis = 0> (w, q, q)", False),
        ("r = Transpose (q) t = Concat <axis = 0> (w, r, r)", False),
        # Indices and the like have another type.
        ("t = Gather (q, first)", True),
        ("t = Gather (w, first)", False),
        (either("Identity (q)", "Identity (p)"), True),
        (either("QuantizeLinear (x, s, z)", "Identity (p)"), True),
        (either("Identity (q)", "Identity (w)"), False),
        (either("Identity (w)", "Identity (q)"), False),
        (either("Cast <to = 3> (x)", "Identity (q)"), False),
        # A cycle is reported by another rule.
        ("r = Concat <axis = 0> (q, t) t = Identity (r)", True),
        ("r = Concat <axis = 0> (w, t) t = Identity (r)", False),
    ],
)
def test_where_codes_come_from(body: str, is_quantizers: bool):
    text = f"""<ir_version: 10, opset_import: ["": 21]>
        g (float[2] x, int8[2] given, bool c) => (int8[2] y)
        <float s = {{1}}, int8 z = {{0}}, int8[2] w = {{1, 2}}, int64[1] first = {{0}}, int8[2] t> {{
            {SOURCES} {body} y = Identity (t)
        }}"""
    context = RuleContext(Model(onnx.parser.parse_model(text)))

    assert CodeOrigin(context).is_quantizers(context.view.main.values["y"]) == is_quantizers


def test_what_a_dq_makes_are_no_codes():
    text = """<ir_version: 10, opset_import: ["": 21]>
        g (float[2] x) => (float[2] y) <float s = {1}> { q = QuantizeLinear (x, s) y = DequantizeLinear (q, s) }"""
    context = RuleContext(Model(onnx.parser.parse_model(text)))

    assert not CodeOrigin(context).is_quantizers(context.view.main.values["y"])
    assert not CodeOrigin(context).is_quantizers(None)
