"""QS007: what may read the codes of a Q, and what may make those that a DQ reads."""

import pytest
from support.one_rule import findings, messages, parsed

READ = "the codes of this Q are read by"
MADE = "this DQ reads the output of"


def codes(body: str, kind: str = "int8") -> str:
    return f"""agraph (float[2,2] x, {kind}[2,2] given, bool b, int64[2] sizes) => (float[2,2] y)
    <float s = {{1}}, {kind} z = {{0}}, {kind}[2,2] k = {{1}}> {{
        q = QuantizeLinear (x, s, z)
        {body}
    }}"""


@pytest.mark.parametrize(
    ("body", "readers"),
    [
        ("y = DequantizeLinear (q, s, z)", []),
        ("t = Transpose (q)", []),
        ("t = MatMul (q, k)", []),
        ("t = Shape (q)", []),
        ("t = ArgMax (q)", []),
        ("t = MaxPool <kernel_shape = [1]> (q)", []),
        ("t = com.microsoft.Foo (q)", []),
        ("t = Concat <axis = 0> (q, k)", []),
        ("t = If (b) <then_branch = g () => (u) {u = Identity (q)}, else_branch = h () => (v) {v = Abs (q)}>", ["Abs"]),
        ("t = Add (q, q)", ["Add", "Add"]),
        ("y = DequantizeLinear (q, s, z) t = Relu (q)", ["Relu"]),
        ("t = Identity (q) u = Add (q, k)", ["Add"]),
    ],
)
def test_readers_of_codes(body: str, readers: list[str]):
    found = [each for each in findings("QS007", codes(body)) if READ in each.message]

    assert [each.found for each in found] == readers
    assert {each.op_type for each in found} <= {"QuantizeLinear"}


@pytest.mark.parametrize(
    ("body", "kind", "target", "refused"),
    [
        ("t = MaxPool <kernel_shape = [1, 1]> (q)", "int8", "onnx", False),
        ("t = MaxPool <kernel_shape = [1, 1]> (q)", "float8e4m3fn", "onnx", True),
        ("t = MaxPool <kernel_shape = [1, 1]> (q)", "float8e4m3fn", "tensorrt", False),
        ("t = Transpose (q)", "float8e4m3fn", "onnx", False),
    ],
)
def test_an_operator_that_moves_codes_is_reported_where_it_has_no_such_type(
    body: str, kind: str, target: str, refused: bool
):
    found = findings("QS007", codes(body, kind), target)

    assert [(each.message, each.effect) for each in found] == [(f"{READ} MaxPool 'MaxPool -> t'", "refused")] * refused


@pytest.mark.parametrize(
    ("body", "maker"),
    [
        ("t = Transpose (q) y = DequantizeLinear (t, s)", None),
        ("y = DequantizeLinear (given, s)", None),
        ("t = Transpose (given) y = DequantizeLinear (t, s)", None),
        ("t = Neg (k) y = DequantizeLinear (t, s)", None),
        ("c = Constant <value = int8[2] {1, 2}> () y = DequantizeLinear (c, s)", None),
        ("t = Cast <to = 3> (x) y = DequantizeLinear (t, s)", None),
        ("t = MatMulInteger (q, k) y = DequantizeLinear (t, s)", None),
        ("t = com.microsoft.Foo (x) y = DequantizeLinear (t, s)", None),
        ("t = Concat <axis = 0> (given, k) y = DequantizeLinear (t, s)", None),
        ("t = RandomUniform <shape = [2]> () y = DequantizeLinear (t, s)", None),
        ("t = Neg (given) y = DequantizeLinear (t, s)", "Neg"),
        ("t = Neg (given) u = Reshape (t, sizes) y = DequantizeLinear (u, s)", "Neg"),
        ("t = Relu (x) u = Transpose (t) v = Identity (u) y = DequantizeLinear (v, s)", "Relu"),
    ],
)
def test_makers_of_codes(body: str, maker: str | None):
    found = [each for each in findings("QS007", codes(body)) if MADE in each.message]

    assert [each.message for each in found] == ([f"{MADE} {maker} '{maker} -> t'"] if maker else [])
    assert [each.op_type for each in found] == ["DequantizeLinear"] * bool(maker)


def test_codes_of_a_constant_whose_value_the_caller_of_a_function_gives():
    model = parsed("""
    <ir_version: 10, opset_import: ["": 21, "own": 1]>
    agraph (float[2] x) => (float[2] y) <float s = {1}> { y = own.F <v = int8[2] {1, 2}> (s) }
    <domain: "own", opset_import: ["": 21]> F <v> (s) => (y) {
        c = Constant <value: tensor = @v> ()
        y = DequantizeLinear (c, s)
    }""")

    assert messages("QS007", model) == []


def test_the_codes_of_a_q_are_an_output_or_read_by_nobody():
    assert messages("QS007", codes("y = Relu (x)")) == ["nothing reads the output of this Q"]
    model = parsed("agraph (float[2] x) => (int8[2] q) <float s = {1}, int8 z = {0}> {q = QuantizeLinear (x, s, z)}")
    assert messages("QS007", model) == []
