"""In how many ways local functions are called."""

import onnx
import onnx.parser
import pytest
from onnx import helper

from qdqtool.models.graph.index.calls import MANY, call_counts, nodes_with_several_values, varying_functions
from qdqtool.models.graph.index.view import GraphView
from qdqtool.models.graph.model import Model

DOMAIN = "com.example"


def function(name: str, *calls: str) -> onnx.FunctionProto:
    names = [f"t{number}" for number in range(len(calls) + 1)]
    nodes = [
        helper.make_node(called, [read], [made], domain=DOMAIN)
        for called, read, made in zip(calls, names, names[1:], strict=False)
    ]
    imports = [helper.make_opsetid("", 17), helper.make_opsetid(DOMAIN, 1)]
    return helper.make_function(DOMAIN, name, ["t0"], [names[-1]], nodes, imports)


def counts(main: tuple[str, ...], *functions: onnx.FunctionProto) -> dict[str, int]:
    graph = onnx.GraphProto(name="g")
    for number, called in enumerate(main):
        graph.node.append(helper.make_node(called, ["x"], [f"y{number}"], domain=DOMAIN))
    imports = [helper.make_opsetid("", 17), helper.make_opsetid(DOMAIN, 1)]
    model = helper.make_model(graph, opset_imports=imports, functions=functions)
    return {path[0].split("::")[1]: count for path, count in call_counts(GraphView(Model(model))).items()}


def test_calls_through_other_functions_count() -> None:
    found = counts(
        ("Outer", "Outer", "Inner"), function("Inner"), function("Outer", "Inner", "Inner"), function("Idle", "Inner")
    )
    assert found == {"Outer": 2, "Inner": 5, "Idle": 0}


def test_a_call_in_a_body_counts_once() -> None:
    body = onnx.GraphProto(name="b", node=[helper.make_node("One", ["x"], ["z"], domain=DOMAIN)])
    node = helper.make_node("If", ["c"], ["y"], then_branch=body, else_branch=body)
    graph = onnx.GraphProto(name="g", node=[node])
    imports = [helper.make_opsetid("", 17), helper.make_opsetid(DOMAIN, 1)]
    model = helper.make_model(graph, opset_imports=imports, functions=[function("One")])
    assert set(call_counts(GraphView(Model(model))).values()) == {2}


def test_a_function_that_calls_itself_has_many_calls() -> None:
    assert counts(("A",), function("A", "B"), function("B", "A"), function("C", "B")) == {"A": MANY, "B": MANY, "C": 0}


def test_deep_and_wide_nesting_is_counted() -> None:
    deep = [function(f"F{number}", f"F{number + 1}") for number in range(3000)]
    assert counts(("F0",), *deep, function("F3000"))["F3000"] == 1
    wide = [function(f"F{number}", f"F{number + 1}", f"F{number + 1}") for number in range(100)]
    assert counts(("F0",), *wide, function("F100"))["F100"] == MANY
    assert counts(("F0",), *wide[:16], function("F16"))["F16"] == 65536
    assert counts(("F0", "F1"), *wide[:16], function("F16"))["F16"] == 65536
    assert counts(("F0",), *wide[:15], function("F15"))["F15"] == 32768


def test_a_call_in_a_body_of_a_function_is_one_of_the_function() -> None:
    body = onnx.GraphProto(name="b", node=[helper.make_node("One", ["t0"], ["z"], domain=DOMAIN)])
    outer = function("Outer")
    outer.node.append(helper.make_node("If", ["t0"], ["y"], then_branch=body, else_branch=body))
    assert counts(("Outer", "Outer", "Outer"), function("One"), outer) == {"Outer": 3, "One": 6}
    assert counts((), function("One"), outer) == {"Outer": 0, "One": 0}


def test_a_call_names_domain_name_and_overload() -> None:
    functions = [helper.make_function("", "F", ["a"], ["b"], [], []) for _ in range(2)]
    functions[1].overload = "other"
    nodes = [
        helper.make_node("F", ["x"], ["y0"], domain="ai.onnx"),
        helper.make_node("F", ["x"], ["y1"]),
        helper.make_node("F", ["x"], ["y2"], overload="other"),
        helper.make_node("F", ["x"], ["y3"], domain=DOMAIN),
    ]
    view = GraphView(Model(helper.make_model(onnx.GraphProto(name="g", node=nodes), functions=functions)))
    found = {scope.path: [node.key[0] for node in scope.calls] for scope in view.scopes if scope.calls}
    assert found == {("::F",): ["y0", "y1"], ("::F:other",): ["y2"]}
    paths = {key: scope.path for key, scope in view.functions.items()}
    assert paths == {("", "F", ""): ("::F",), ("", "F", "other"): ("::F:other",)}


LAST = '<domain: "my", opset_import: ["": 21, "my": 1]> Last <a> (x) => (y) { y = my.Inner <a: int = @a> (x) }'


def varying(outer: str, inner: str) -> set[str]:
    text = f"""<ir_version: 10, opset_import: ["": 21, "my": 1]>
    g (float[2] x) => (float[2] y) {{ {outer} }}
    <domain: "my", opset_import: ["": 21, "my": 1]> Outer <a, b> (x) => (y) {{ {inner} }}
    <domain: "my", opset_import: ["": 21]> Inner <a> (x) => (y) {{ y = Softmax <axis: int = @a> (x) }}
    {LAST if "Last" in outer + inner else ""}"""
    view = GraphView(Model(onnx.parser.parse_model(text)))
    return {path[0].removeprefix("my::") for path in varying_functions(view)}


@pytest.mark.parametrize(
    ("outer", "inner", "expected"),
    [
        ("y = my.Outer <a = 1> (x)", "y = my.Inner <a: int = @a> (x)", set()),
        ("t = my.Outer <a = 1> (x) y = my.Outer <a = 1> (t)", "y = my.Inner <a: int = @a> (x)", set()),
        ("t = my.Outer <a = 1> (x) y = my.Outer <a = 0> (t)", "y = my.Inner <a = 1> (x)", {"Outer"}),
        ("t = my.Outer <a = 1> (x) y = my.Outer (t)", "y = my.Inner <a = 1> (x)", {"Outer"}),
        ("t = my.Outer <a = 1> (x) y = my.Outer <a = 0> (t)", "y = my.Inner <a: int = @a> (x)", {"Outer", "Inner"}),
        (
            "t = my.Outer <a = 1> (x) y = my.Outer <a = 0> (t)",
            "y = my.Last <a: int = @a> (x)",
            {"Outer", "Last", "Inner"},
        ),
        ("t = my.Outer <a = 1> (x) u = my.Outer (t) y = my.Last <a = 1> (u)", "y = Relu (x)", {"Outer"}),
        ("t = my.Outer <a = 1> (x) y = my.Outer <a = 0> (t)", "y = my.Outer <a: int = @a> (x)", {"Outer"}),
        ("y = my.Outer <a = 1> (x)", "t = my.Inner <a = 0> (x) y = my.Inner <a: int = @a> (t)", {"Inner"}),
        ("y = my.Outer <a = 1> (x)", "t = my.Inner <a = 1> (x) y = my.Inner <a: int = @a> (t)", set()),
    ],
)
def test_functions_whose_attributes_have_several_values(outer: str, inner: str, expected: set[str]) -> None:
    assert varying(outer, inner) == expected


def test_the_nodes_of_such_functions_that_have_their_attributes() -> None:
    text = """<ir_version: 10, opset_import: ["": 21, "my": 1]>
    g (float[2] x, bool c) => (float[2] y) { t = my.F <a = 0> (x, c)  u = my.F <a = 1> (t, c)  y = my.G <a = 1> (u) }
    <domain: "my", opset_import: ["": 21]> F <a> (x, c) => (y) {
        r = Relu (x)
        [f] s = Softmax <axis: int = @a> (r)
        y = If (c) <then_branch = t () => (p) { [body] p = Softmax <axis: int = @a> (s) },
                    else_branch = e () => (q) { q = Softmax <axis = 0> (s) }>
    }
    <domain: "my", opset_import: ["": 21]> G <a> (x) => (y) { [g] y = Softmax <axis: int = @a> (x) }"""
    view = GraphView(Model(onnx.parser.parse_model(text)))

    assert sorted(node.label for node in nodes_with_several_values(view)) == ["body", "f"]
