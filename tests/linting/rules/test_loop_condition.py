"""QM616: Loops without a condition whose body reads it."""

import onnx
import pytest
from support.one_rule import findings, fixed


def looping(inputs: str, body: str, operator: str = "Loop") -> str:
    return f"""<ir_version: 10, opset_import: ["": 21, "own": 1]>
    agraph (int64 n, bool c, float[2] x) => (float[2] y) {{
        [loop] y = {operator} ({inputs}) <body = b {body}>
    }}"""


READS = "(int64 i, bool given, float[2] a) => (bool go, float[2] o) { go = Not (given) o = Relu (a) }"
IGNORES = "(int64 i, bool given, float[2] a) => (bool go, float[2] o) <bool go = {1}> { o = Relu (a) }"


@pytest.mark.parametrize(
    ("inputs", "body", "operator", "reader"),
    [
        ("n, , x", READS, "Loop", "Not"),
        ("n, c, x", READS, "Loop", None),
        ("n, , x", IGNORES, "Loop", None),
        ("n, , x", READS, "own.Loop", None),
        ("n, , x", "(int64 i) => (bool go) { go = Cast <to = 9> (i) }", "Loop", None),
        ("n, , x", "() => (bool go) { go = Not (c) }", "Loop", None),
    ],
)
def test_loops(inputs: str, body: str, operator: str, reader: str | None):
    told = [(each.message, each.node, each.tensor) for each in findings("QM616", looping(inputs, body, operator))]

    text = f"this Loop has no condition; its body reads 'given' in {reader}"
    assert told == ([(text, "loop", "given")] if reader else [])


def test_the_fix_gives_the_condition_true():
    model = fixed("QM616", looping("n, , x", READS))

    (stored,) = model.graph.initializer
    assert model.graph.node[0].input[1] == stored.name
    assert onnx.numpy_helper.to_array(stored).item() is True
    onnx.checker.check_model(model, full_check=True)
    assert findings("QM616", model) == []
