"""QT405: the types that TensorRT multiplies with each other, for each operator and granularity of the weight."""

import itertools

import pytest
from support.one_rule import findings, messages, nodes

OPERATORS = {"MatMul": "[4, 4]", "Conv": "[4, 4, 1, 1]", "ConvTranspose": "[4, 4, 1, 1]"}
KINDS = ("int8", "int4", "float8e4m3fn", "float4e2m1", "uint8")


def product(operator: str, left: str, right: str, *, per_axis: int | None = None) -> str:
    shape = OPERATORS[operator]
    scales, ones, axis = ("[4]", "1, 1, 1, 1", f"<axis = {per_axis}>") if per_axis is not None else ("", "1", "")
    return f"""agraph (float{shape} x, float[4,4] free, bool b) => (float[] y)
    <float s = {{1}}, {left} z = {{0}}, float{scales} ws = {{{ones}}}, {right}{shape} w = {{0}}> {{
        o = MatMul (free, free)
        q = QuantizeLinear (x, s, z)
        d = DequantizeLinear (q, s, z)
        v = DequantizeLinear {axis} (w, ws)
        [p] y = {operator} (d, v)
    }}"""


def multiplies(operator: str, left: str, right: str, *, per_axis: bool) -> bool:
    """What was measured with the builder of TensorRT for RTX."""
    kinds = {left, right}
    if "uint8" in kinds:
        return True  # Another rule reports the type.
    if operator == "MatMul":
        return len(kinds) == 1 or (kinds == {"int8", "int4"} and per_axis)
    if operator == "ConvTranspose" and len(kinds) == 2:
        return "int8" in kinds
    return kinds in ({"int8"}, {"float8e4m3fn"})


@pytest.mark.parametrize("per_axis", [False, True])
@pytest.mark.parametrize("operator", OPERATORS)
def test_every_two_types(operator: str, per_axis: bool):
    kernel_axis = 0 if operator == "Conv" else 1
    for left, right in itertools.product(KINDS, KINDS):
        found = findings("QT405", product(operator, left, right, per_axis=kernel_axis if per_axis else None))

        told = (
            []
            if multiplies(operator, left, right, per_axis=per_axis)
            else [f"{operator} multiplies {left} with {right}"]
        )
        assert [each.message for each in found] == told, (left, right)
        assert [each.fixable for each in found] == [(left, right) == ("int8", "int4")] * len(told)


def test_a_layer_that_runs_in_float_because_of_the_axis_of_its_weight():
    assert messages("QT405", product("Conv", "int8", "float8e4m3fn", per_axis=0))
    assert messages("QT405", product("Conv", "int8", "float8e4m3fn", per_axis=1)) == []


def test_a_float_product_hides_nothing_behind_it():
    assert nodes("QT405", product("Conv", "int8", "float8e4m3fn")) == ["p"]
