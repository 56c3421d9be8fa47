"""Codes come from Q nodes, or are stored, given or cast: traced through all that moves them."""

import onnx.parser
import pytest

from qdqtool.linting.rules import RuleContext
from qdqtool.linting.rules.quantized_type import CodeOrigin
from qdqtool.models.graph.model import Model

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
