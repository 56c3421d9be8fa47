"""QL302: products of which one operand is quantized; Gemm and MatMul may have quantized weights alone."""

import pytest
from support.one_rule import findings, messages

QUANTIZED = {"x": "qx = QuantizeLinear (x, s) dx = DequantizeLinear (qx, s) ", "w": "dw = DequantizeLinear (w, s) "}


def product(operator: str, left: str, right: str) -> str:
    shape = "[2, 2]" if operator == "MatMul" else "[2, 2, 1, 1]"
    sides = "".join(QUANTIZED.get(side.removeprefix("d"), "") for side in {left, right} if side.startswith("d"))
    return f"""agraph (float{shape} x, float{shape} u) => (float[] y)
    <int8{shape} w = {{1, 2, 3, 4}}, float{shape} f = {{1, 2, 3, 4}}, float s = {{1}}> {{
        {sides} y = {operator} ({left}, {right})
    }}"""


def one(quantized: str, other: str) -> list[str]:
    return [f"the {quantized} is quantized, the {other} is not"]


@pytest.mark.parametrize(
    ("operator", "left", "right", "expected"),
    [
        ("MatMul", "x", "f", []),
        ("MatMul", "dx", "dw", []),
        ("MatMul", "x", "dw", []),
        ("MatMul", "dw", "x", []),
        ("MatMul", "dx", "f", one("activation 'dx'", "weight 'f'")),
        ("MatMul", "dx", "u", one("activation 'dx'", "activation 'u'")),
        ("MatMul", "u", "dx", one("activation 'dx'", "activation 'u'")),
        ("MatMul", "dx", "", one("activation 'dx'", "activation ''")),
        ("Conv", "dx", "dw", []),
        ("Conv", "x", "dw", one("weight 'dw'", "activation 'x'")),
        ("Conv", "dx", "f", one("activation 'dx'", "weight 'f'")),
    ],
)
def test_sides(operator: str, left: str, right: str, expected: list[str]):
    assert messages("QL302", product(operator, left, right)) == expected


@pytest.mark.parametrize(("quantized", "severity", "fixable"), [("", "info", False), ("qx", "warning", True)])
def test_weights_alone_of_a_whole_model_are_chosen(quantized: str, severity: str, fixable: bool):
    """`--quantize-mode int8-weight-only` makes such Convs; where activations are quantized, one was forgotten."""
    text = f"""agraph (float[2, 2, 1, 1] x) => (float[] y, float[] z)
    <int8[2, 2, 1, 1] w = {{1, 2, 3, 4}}, float s = {{1}}> {{
        {QUANTIZED["w"]} y = Conv (x, dw)
        {QUANTIZED["x"] if quantized else ""} z = Neg ({"dx" if quantized else "x"})
    }}"""
    (finding,) = findings("QL302", text)
    assert (finding.severity, finding.fixable) == (severity, fixable)
