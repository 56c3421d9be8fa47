"""Operators that are called like Q and DQ, and are of another domain."""

import onnx
import pytest
from support.fixing import located, read

from qdqtool.linting.rules import RuleContext

CODE = "QT407"

FUNCTION = """
<domain: "{domain}", opset_import: ["": 23]>
{op_type} (a, b) => (r) {{ r = Relu (a) }}
"""


def model(nodes: str, *, function: tuple[str, str] | None = None) -> RuleContext:
    text = f"""
        <ir_version: 11, opset_import: ["": 23, "my.domain": 1, "com.microsoft": 1]>
        agraph (float[4] x, int32[4] i, int8[4] c) => (float[4] y) <float s = {{0.5}}, int8 z = {{0}}> {{
            {nodes}
        }}
    """
    if function is not None:
        text += FUNCTION.format(domain=function[0], op_type=function[1])
    return read(onnx.parser.parse_model(text))


def said(context: RuleContext, target: str) -> list[tuple[str, str]]:
    found = [finding for finding, _ in located(CODE, context, target)]
    assert all(finding.expected == "the default domain" for finding in found)
    return [(finding.message, finding.effect) for finding in found]


MY_Q = "this QuantizeLinear comes from domain 'my.domain'"
MY_DQ = "this DequantizeLinear comes from domain 'my.domain'"


@pytest.mark.parametrize(
    ("nodes", "ort", "tensorrt"),
    [
        ("q = QuantizeLinear (x, s, z)  y = DequantizeLinear (q, s, z)", [], []),
        ("q = com.microsoft.QuantizeLinear (x, s, z)  y = com.microsoft.DequantizeLinear (q, s, z)", [], []),
        ("y = my.domain.Relu (x)", [], []),
        ("q = my.domain.QuantizeLinear (x, s, z)  y = Neg (x)", [(MY_Q, "refused")], [(MY_Q, "silent")]),
        ("y = my.domain.QuantizeLinear (x)", [(MY_Q, "refused")], [(MY_Q, "refused")]),
        ("y = my.domain.QuantizeLinear (i, s)", [(MY_Q, "refused")], [(MY_Q, "refused")]),
        ("y = my.domain.DequantizeLinear (c, s)", [(MY_DQ, "refused")], [(MY_DQ, "silent")]),
        ("y = my.domain.DequantizeLinear (x, s)", [(MY_DQ, "refused")], [(MY_DQ, "refused")]),
        ("u = my.domain.Other (x)  y = my.domain.QuantizeLinear (u, s)", [(MY_Q, "refused")], [(MY_Q, "silent")]),
        (
            "q = QuantizeLinear (x, s, z)  d = DequantizeLinear (q, s)  y = my.domain.QuantizeLinear (d, s)",
            [(MY_Q, "refused")],
            [(MY_Q, "silent")],
        ),
    ],
)
def test_which_nodes_are_reported(nodes: str, ort: list[tuple[str, str]], tensorrt: list[tuple[str, str]]):
    context = model(nodes)

    assert said(context, "ort-cpu") == ort
    assert said(context, "tensorrt") == tensorrt


LOCAL = "this QuantizeLinear comes from a local function"


@pytest.mark.parametrize("domain", ["my.domain", "com.microsoft"])
def test_tensorrt_does_not_call_a_local_function_of_that_name(domain: str):
    """ONNX Runtime calls it."""
    context = model(
        f"y = {domain}.QuantizeLinear (x, s)  r = my.domain.DequantizeLinear (c, s)",
        function=(domain, "QuantizeLinear"),
    )

    assert said(context, "tensorrt") == [(LOCAL, "silent"), (MY_DQ, "silent")]
    assert said(context, "ort-cpu") == [(MY_DQ, "refused")]
