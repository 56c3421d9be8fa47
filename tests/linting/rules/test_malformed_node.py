"""QS008: inputs and outputs of Q and DQ are counted as onnx's checker counts them."""

import onnx
import pytest
from support.one_rule import findings, parsed

EXPECTED = "data, scale, an optional zero point, and one output"


@pytest.mark.parametrize(
    ("outputs", "inputs", "found"),
    [
        ("y", "x, s", None),
        ("y", "x, s, z", None),
        ("y", "x, s,", None),
        ("y", "", "0 inputs"),
        ("y", "x", "1 input"),
        ("y", ", s", "no data"),
        ("y", "x, ", "no scale"),
        ("y", "x, , z", "no scale"),
        ("y", ", , z", "no data"),
        ("y", "x, s, z, z", "4 inputs"),
        ("y", "x, s, z, z, z", "5 inputs"),
        ("y, u", "x, s, z", "2 outputs"),
        ("y, ", "x, s", "1 outputs"),
        (None, "x, s", "0 outputs"),
        ("", "x, s", "0 outputs"),
    ],
)
@pytest.mark.parametrize("operator", ["QuantizeLinear", "DequantizeLinear"])
def test_counts(operator: str, outputs: str | None, inputs: str, found: str | None):
    data, made = ("float", "int8") if operator == "QuantizeLinear" else ("int8", "float")
    model = parsed(
        f"agraph ({data}[2] x) => ({made}[2] y) <float s = {{1}}, int8 z = {{0}}> {{ [n] y = {operator} () }}"
    )
    (node,) = model.graph.node
    node.input[:] = [name.strip() for name in inputs.split(",")] if inputs else []
    if outputs is not None:
        node.output[:] = [name.strip() for name in outputs.split(",")]
    else:
        del node.output[:]
    word = "Q" if operator == "QuantizeLinear" else "DQ"

    told = [(each.message, each.node, each.found, each.expected) for each in findings("QS008", model, "onnx")]
    assert told == ([(f"this {word} has {found}", "n", found, EXPECTED)] if found else [])
    assert _is_legal(node) == (found is None)


def _is_legal(node: onnx.NodeProto) -> bool:
    context = onnx.checker.C.CheckerContext()
    context.ir_version = 10
    context.opset_imports = {"": 21}
    try:
        onnx.checker.check_node(node, context)
    except onnx.checker.ValidationError:
        return False
    return True
