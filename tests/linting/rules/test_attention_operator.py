"""QL314: pairs on the queries, keys and values of Attention, and of nothing else."""

import pytest
from support.one_rule import findings, parsed

ROLES = ("queries", "keys", "values")


@pytest.mark.parametrize("quantized", ["", "q", "k", "v", "qk", "qkv"])
@pytest.mark.parametrize("operator", ["Attention", "com.microsoft.Attention", "Max"])
def test_operands(operator: str, quantized: str):
    pairs = " ".join(
        f"{name}c = QuantizeLinear ({name}, s) {name}d = DequantizeLinear ({name}c, s)" for name in quantized
    )
    operands = ", ".join(f"{name}d" if name in quantized else name for name in "qkv")
    inputs = ", ".join(f"float[1,2,4,8] {name}" for name in "qkv")
    model = f"agraph ({inputs}) => (float[1,2,4,8] y) <float s = {{1}}> {{ {pairs} [a] y = {operator} ({operands}) }}"

    told = [(each.message, each.node, each.tensor) for each in findings("QL314", parsed(model, 23), "tensorrt-rtx")]
    assert told == [
        (f"the {role} of this Attention are quantized", "a", f"{name}d")
        for role, name in zip(ROLES, "qkv", strict=True)
        if name in quantized and operator == "Attention"
    ]
