"""Names of layers as TensorRT gives them, also in dead branches; the corpus compares them with the parser."""

import onnx
import onnx.parser
import pytest

from qdqtool.linting.rules import RuleContext
from qdqtool.linting.rules.support.layer_names import MAX_DEPTH, dead_scopes, taken_names
from qdqtool.models.graph.model import Model

HEADER = '<ir_version: 10, opset_import: ["": 21, "my": 1]>\n'
PAIR = "s = Constant <value = float {0.1}> () q = QuantizeLinear (x, s) y = DequantizeLinear (q, s)"


def taken(text: str) -> list[tuple[str, str, bool]]:
    context = RuleContext(Model(onnx.parser.parse_model(HEADER + text)))
    return [(each.name, each.owner, each.again) for each in taken_names(context)]


def function(name: str, body: str) -> str:
    return f'<domain: "my", opset_import: ["": 21, "my": 1]> {name} (x) => (y) {{ {body} }} '


def test_each_node_of_a_function_is_told_once_however_often_it_is_called():
    calls = "a = my.F (x) b = my.F (a) c = my.F (b) y = my.F (c)"
    found = taken(f"g (float[4] x) => (float[4] y) {{ {calls} }} {function('F', PAIR)}")

    assert [(name, again) for name, _, again in found] == [("node_of_q", True), ("node_of_y", True)]


def test_functions_that_call_each_other_end():
    both = function("F", "y = my.G (x)") + function("G", "y = my.F (x)")

    assert taken(f"g (float[4] x) => (float[4] y) {{ y = my.F (x) }} {both}") == []


@pytest.mark.parametrize("depth", [3, MAX_DEPTH - 2, MAX_DEPTH - 1, MAX_DEPTH + 10])
def test_functions_in_functions_are_followed_to_a_depth(depth: int):
    chain = "".join(function(f"F{number}", f"y = my.F{number + 1} (x)") for number in range(depth))
    text = f"g (float[4] x) => (float[4] y) {{ a = my.F0 (x) y = my.F0 (a) }} {chain}{function(f'F{depth}', PAIR)}"

    # The main graph is one level.
    assert bool(taken(text)) == (depth < MAX_DEPTH - 1)


def conditional(body: str, other: str = "z = Relu (x)", condition: str = "x") -> str:
    """An If, which TensorRT does not have to run: only names matter here."""
    graphs = f"then_branch = b () => (float[4] z) {{ {body} }}, else_branch = b () => (float[4] z) {{ {other} }}"
    return f"y = If ({condition}) <{graphs}>"


@pytest.mark.parametrize("calls", [1, 31, 32, 40])
def test_bodies_count_as_functions_do(calls: int):
    chain = "".join(function(f"F{number}", conditional(f"z = my.F{number + 1} (x)")) for number in range(calls))
    text = f"g (float[4] x) => (float[4] y) {{ a = my.F0 (x) y = my.F0 (a) }} {chain}{function(f'F{calls}', PAIR)}"

    # The main graph is one level, and each call and each body is another.
    assert bool(taken(text)) == (2 * calls + 2 <= MAX_DEPTH)


def test_the_owner_of_a_name_is_told():
    text = (
        "g (float[4] x) => (float[4] y) <float s = {0.1}> { [s] q = QuantizeLinear (x, s) y = DequantizeLinear (q, s) }"
    )

    assert taken(text) == [("s", "the constant 's'", False)]


QUANTIZE = "[taken] q = QuantizeLinear (x, s) y = DequantizeLinear (q, s)"


@pytest.mark.parametrize(
    ("in_front", "owner"),
    [
        ("", None),
        ("[taken] r = Relu (x)", "Relu 'taken'"),
        ("[other] r = Relu (x)", None),
        ("r = Relu (x)", None),
        ("[taken] r = Dropout (x)", None),
        ("[taken] k = Constant <value = float {1}> ()", None),
        ("[taken] d = DequantizeLinear (w, s)", "DequantizeLinear 'taken'"),
        ("m = Mul (x, taken)", "the constant 'taken'"),
        ("m = Conv (x, taken)", None),
        ("m = Clip (x, , taken)", "the constant 'taken'"),
        ("m = Add (x, computed)", None),
        ("taken = Relu (x) m = Add (x, taken)", None),
        ("d = DequantizeLinear (taken, s)", "the constant 'taken'"),
        ("d = DequantizeLinear (w, taken)", "the constant 'taken'"),
        ("d = DequantizeLinear (w, s, taken)", None),
        ("d = DequantizeLinear (x, s)", None),
    ],
)
def test_what_is_a_layer_by_then_has_its_name(in_front: str, owner: str | None):
    made = "taken = Relu (x)" in in_front or not in_front
    stored = "" if made else ", float taken = {1}"
    text = f"g (float[4] x) => (float[4] y) <float s = {{0.1}}, int8[4] w = {{1, 2, 3, 4}}{stored}>"

    assert taken(f"{text} {{ {in_front} {QUANTIZE} }}") == ([("taken", owner, False)] if owner else [])


@pytest.mark.parametrize("kind", ["int64", "int32", "bool", "float", "int8"])
def test_constants_of_shapes_and_indices_are_no_layers(kind: str):
    text = f"g (float[4] x) => (float[4] y) <float s = {{0.1}}, {kind} taken = {{1}}>"

    found = taken(f"{text} {{ m = Unknown (x, taken) {QUANTIZE} }}")

    assert bool(found) == (kind in {"float", "int8"})


def test_an_input_is_no_layer():
    assert (
        taken(f"g (float[4] x, float[4] taken) => (float[4] y) <float s = {{0.1}}> {{ m = Add (x, taken) {QUANTIZE} }}")
        == []
    )


@pytest.mark.parametrize(
    ("condition", "told"), [("x", True), ("true", True), ("false", False)], ids=["computed", "true", "false"]
)
def test_a_branch_that_is_never_taken_has_no_layers(condition: str, told: bool):
    stored = "<float s = {0.1}, bool true = {1}, bool false = {0}>"
    branch = conditional("[taken] z = Relu (x)", condition=condition)
    text = f"g (float[4] x) => (float[4] y) {stored} {{ {branch} {QUANTIZE.replace('y =', 'p =')} }}"

    assert taken(text) == ([("taken", "Relu 'taken'", False)] if told else [])


def test_a_node_whose_name_another_one_has_is_told_once_of_all_calls():
    body = "s = Constant <value = float {0.1}> () [taken] q = QuantizeLinear (x, s) y = DequantizeLinear (q, s)"
    text = "g (float[4] x) => (float[4] y) { [taken] r = Relu (x) a = my.F (r) b = my.F (a) y = my.F (b) }"

    assert taken(f"{text} {function('F', body)}") == [
        ("taken", "Relu 'taken'", False),
        ("node_of_y", "DequantizeLinear 'DequantizeLinear -> y'", True),
    ]


INNER = (
    "If (c) <then_branch = i () => (float[2] k) { k = Abs (x) }, else_branch = j () => (float[2] l) { l = Neg (x) }>"
)


def branches(output: str, condition: str, inner: str = "Relu (x)") -> str:
    return f"""{output} = If ({condition}) <then_branch = t () => (float[2] p) {{ p = {inner} }},
        else_branch = s () => (float[2] q) {{ q = Relu (x) }}>"""


LOOP = """o = Loop (once, yes, x) <body = b (int64 n, bool go, float[2] v) => (bool on, float[2] w) {
    on = Identity (go) w = Relu (v) }>"""


@pytest.mark.parametrize(
    ("body", "dead"),
    [
        (branches("y", "yes"), ["y.else_branch"]),
        (branches("y", "no"), ["y.then_branch"]),
        (branches("y", "c"), []),
        (branches("y", "nowhere"), []),
        (branches("y", "both"), []),
        (branches("y", "alone"), ["y.else_branch"]),
        (branches("y", "no", INNER), ["y.then_branch", "p.then_branch", "p.else_branch"]),
        (branches("y", "yes", INNER), ["y.else_branch"]),
        (branches("y", "c", INNER.replace("(c)", "(yes)")), ["p.else_branch"]),
        (LOOP, []),
        (f"{LOOP} {branches('y', 'yes')}", ["y.else_branch"]),
        (f"{branches('a', 'c')} {branches('y', 'no')}", ["y.then_branch"]),
    ],
)
def test_branches_that_are_never_taken(body: str, dead: list[str]):
    stored = "bool yes = {1}, bool no = {0}, bool[2] both = {1, 1}, bool[1] alone = {1}, int64 once = {1}"
    text = f'<ir_version: 10, opset_import: ["": 21]> g (float[2] x, bool c) => (float[2] y) <{stored}> {{ {body} }}'

    found = dead_scopes(RuleContext(Model(onnx.parser.parse_model(text))))

    assert sorted(scope.path[-1] for scope in found) == sorted(dead)
