"""QT406: the products of fp4 that crash the builder."""

import pytest
from support.one_rule import findings


def product(operator: str, left: str, right: str, weight_scales: str = "", axis: int = 1, activation: str = "") -> str:
    shape = "[2, 2]" if operator != "Conv" else "[2, 2, 1, 1]"
    per_axis = f"<axis = {axis}>" if weight_scales else ""
    rows = "<axis = 0>" if activation else ""
    return f"""agraph (float{shape} x, float{weight_scales} ws, float{activation} s) => (float[] y)
    <{left}{activation} z = {{0}}, {right}{shape} w = {{0, 0}}> {{
        q = QuantizeLinear {rows} (x, s, z)
        d = DequantizeLinear {rows} (q, s, z)
        v = DequantizeLinear {per_axis} (w, ws)
        [p] y = {operator} (d, v)
    }}"""


@pytest.mark.parametrize(
    ("model", "reported"),
    [
        (product("MatMul", "float4e2m1", "float4e2m1"), True),
        (product("Gemm", "float4e2m1", "float4e2m1"), True),
        (product("MatMul", "float4e2m1", "float4e2m1", "[2]"), True),
        (product("MatMul", "float4e2m1", "float4e2m1", "[2]", axis=0), False),
        (product("MatMul", "float4e2m1", "int8"), False),
        (product("MatMul", "int8", "float4e2m1"), False),
        (product("MatMul", "int8", "int8"), False),
        (product("Conv", "float4e2m1", "float4e2m1"), False),
        (product("MatMul", "float4e2m1", "float4e2m1", activation="[2]"), False),
    ],
)
def test_products(model: str, reported: bool):
    told = [(each.message, each.tensor) for each in findings("QT406", model)]

    assert [tensor for _, tensor in told] == ["v"] * reported
    assert all(message.endswith("multiplies per-tensor float4e2m1 with float4e2m1") for message, _ in told)


def test_a_weight_alone_is_no_product_of_codes():
    model = """agraph (float[2,2] x) => (float[2,2] y) <float s = {1}, float4e2m1[2,2] w = {0, 0}> {
        v = DequantizeLinear (w, s)
        y = MatMul (x, v)
    }"""
    assert findings("QT406", model) == []
