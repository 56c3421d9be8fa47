"""QM612: functions that call themselves, directly, through others or in a body."""

import pytest
from support.one_rule import messages, parsed


def calling(**calls: str) -> list[str]:
    functions = "".join(
        f'<domain: "own", opset_import: ["": 21, "own": 1]> {name} (x) => (y) {{ {body} }}\n'
        for name, body in calls.items()
    )
    graph = '<ir_version: 10, opset_import: ["": 21, "own": 1]> agraph (float[2] x) => (float[2] y) { y = own.A (x) }\n'
    return messages("QM612", parsed(graph + functions), "onnx")


def each(*names: str) -> list[str]:
    return [f"local function 'own::{name}' calls itself" for name in names]


@pytest.mark.parametrize(
    ("calls", "expected"),
    [
        ({"A": "y = Relu (x)"}, []),
        ({"A": "y = own.B (x)", "B": "y = Relu (x)"}, []),
        ({"A": "y = own.A (x)"}, each("A")),
        ({"A": "y = own.B (x)", "B": "y = own.A (x)"}, each("A", "B")),
        ({"A": "y = own.B (x)", "B": "y = own.B (x)"}, each("B")),
        ({"A": "y = own.B (x)", "B": "y = own.C (x)", "C": "y = own.A (x)"}, each("A", "B", "C")),
        ({"A": "y = own.B (x)", "B": "t = own.C (x) y = own.C (t)", "C": "y = own.D (x)", "D": "y = Relu (x)"}, []),
        ({"A": "y = A (x)"}, []),
        (
            {"A": "y = If (x) <then_branch = t () => (p) {p = own.A (x)}, else_branch = e () => (q) {q = Abs (x)}>"},
            each("A"),
        ),
    ],
)
def test_calls(calls: dict[str, str], expected: list[str]):
    assert calling(**calls) == expected


def test_a_body_of_the_main_graph_is_no_function_whatever_it_is_called():
    model = parsed("""
    <ir_version: 10, opset_import: ["": 21, "own": 1]>
    agraph (float[2] x, bool c) => (float[2] y) {
        t = If (c) <then_branch = t () => (p) {p = own.F (x)}, else_branch = e () => (q) {q = Abs (x)}>
        y = Relu (t)
    }
    <domain: "own", opset_import: ["": 21]> F (x) => (y) { y = Relu (x) }""")
    model.functions[0].name = "F.then_branch"
    branch = model.graph.node[0]
    branch.attribute[0].g.node[0].op_type = "F.then_branch"
    branch.output[0] = model.graph.node[1].input[0] = "own::F"

    assert messages("QM612", model, "onnx") == []
