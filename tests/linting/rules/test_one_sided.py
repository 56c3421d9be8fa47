"""QL302: products of which one operand is quantized; Gemm and MatMul may have quantized weights alone."""

import pytest
from support.one_rule import messages

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
