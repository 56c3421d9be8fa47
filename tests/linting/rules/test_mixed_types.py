"""QT414: where one type is demanded, for which operators and targets, and what other rules report."""

import pytest
from support.one_rule import findings

HEADER = '<ir_version: 10, opset_import: ["": 21, "own": 1, "com.microsoft": 1]>'


def told(line: str, target: str = "onnx", code: str = "QT414") -> list[str]:
    """Return the tensors that are reported in a graph of one line, with inputs of several types."""
    text = f"""{HEADER}
    g (float[4,4] f, float16[4,4] h, int64[4,4] i, bool[4,4] b, float[4] s, float16[4] z) => (y) {{ {line} }}"""
    return [str(finding.tensor) for finding in findings(code, text, target)]


@pytest.mark.parametrize(
    ("line", "tensors"),
    [
        ("y = Add (f, h)", ["h"]),
        ("y = Add (h, f)", ["f"]),
        ("y = Add (f, f)", []),
        ("y = Where (b, f, h)", ["h"]),
        ("y = Where (b, f, f)", []),
        ("y = Clip (f, , h)", ["h"]),
        ("y = Concat <axis = 0> (f, f, h, i)", ["h"]),
        ("y = Sum (f, b)", []),
        ("y = MatMul (f, h)", []),
        ("y = own.Add (f, h)", []),
        ("y = com.microsoft.QuickGelu (f, h)", []),
        ("y = Unknown (f, h)", []),
        ("y = QuantizeLinear <axis = 0> (f, z)", []),
        ("y = LayerNormalization (f, z)", ["z"]),
        ("u = own.Make (f)  y = Add (u, h)", []),
        ("a = Add (f, h)  y = Mul (i, f)", ["h", "f"]),
    ],
)
def test_the_first_tensor_of_another_type_is_named(line: str, tensors: list[str]):
    assert told(line) == tensors


@pytest.mark.parametrize(("line", "is_told"), [("y = Add (f, h)", True), ("y = LayerNormalization (f, z)", False)])
def test_of_tensorrt_it_speaks_where_that_was_measured(line: str, is_told: bool):
    assert bool(told(line, "tensorrt")) == is_told
    assert told(line, "ort-cpu")


@pytest.mark.parametrize(
    ("line", "tensors"),
    [
        ("y = Sqrt (i)", ["i"]),
        ("y = own.Sqrt (i)", []),
        ("y = Gather (i, f)", ["f"]),
        ("y = Where (f, i, i)", ["f"]),
        ("y = And (f, i)", ["f"]),
        ("y = Clip (f, , f)", []),
        ("y = MatMul (b, b)", ["b"]),
        ("y = DequantizeLinear (f, s)", []),
        ("q = QuantizeLinear (f, s)  y = Sqrt (q)", []),
        ("q = QuantizeLinear (f, s)  y = MatMul (q, f)", []),
        ("c = Cast <to = 3> (f)  y = MatMul (c, f)", []),
    ],
)
def test_types_that_the_operator_does_not_take(line: str, tensors: list[str]):
    assert told(line, code="QT413") == tensors


@pytest.mark.parametrize(
    ("line", "is_told"),
    [
        ("y = own.Relu <alpha = 1.0> (f)", False),
        ("y = Relu <alpha = 1.0> (f)", True),
        ("y = LayerNormalization <alpha = 1.0, stash_type = 1> (f, s)", False),
        ("y = LayerNormalization <alpha = 1.0, stash_type = 1.0> (f, s)", True),
        ("y = QuantizeLinear <alpha = 1.0> (f, s)", False),
        ("y, m = MaxPool <kernel_shape = [1]> (f)", False),
        ("y = Unknown <alpha = 1.0> (f)  v = Relu <alpha = 1.0> (f)", True),
    ],
)
def test_attributes_that_the_operator_does_not_have(line: str, is_told: bool):
    assert bool(told(line, code="QT412")) == is_told
