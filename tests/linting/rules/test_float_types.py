"""QT409: the float type of the scale and that of the float side, over all combinations."""

import itertools

import pytest
from support.one_rule import findings, parsed

NAMES = {"float": "float32", "float16": "float16", "bfloat16": "bfloat16", "double": "float64", "int32": "int32"}
FLOATS = {"float", "float16", "bfloat16"}
NARROW = {"int4", "float8e4m3fn", "float4e2m1"}


def converted(kind: str, scale: str, side: str, operator: str) -> bool:
    """What was measured with TensorRT for RTX 1.7.1; other rules report what is no such float."""
    if scale == side or kind not in NARROW or not {scale, side} <= FLOATS:
        return True
    by_type = {"float8e4m3fn": True, "int4": operator == "QuantizeLinear"}
    return scale == "float" and by_type.get(kind, False)


@pytest.mark.parametrize("operator", ["QuantizeLinear", "DequantizeLinear"])
@pytest.mark.parametrize("kind", ["int8", *sorted(NARROW)])
def test_every_two_types(kind: str, operator: str):
    for scale, side in itertools.product(NAMES, NAMES):
        if operator == "QuantizeLinear":
            text = f"({side}[2] x, {scale} s) => ({kind}[2] y) <{kind} z = {{0}}> {{ y = QuantizeLinear (x, s, z) }}"
        else:
            number = {"float": 1, "float16": 10, "bfloat16": 16, "double": 11, "int32": 6}[side]
            node = f"DequantizeLinear <output_dtype = {number}> (x, s)"
            text = f"({kind}[2] x, {scale} s) => ({side}[2] y) {{ y = {node} }}"
        found = findings("QT409", parsed(f"agraph {text}", 23))

        assert [(each.tensor, each.found, each.expected) for each in found] == [
            ("s", f"{NAMES[scale]} and {NAMES[side]}", f"{NAMES[side]} for both")
        ] * (not converted(kind, scale, side, operator)), (scale, side)
