"""Which node of one model is which of the other, from the strongest evidence to the weakest."""

from pathlib import Path

import onnx
import pytest
from hypothesis import given
from support.qdq import text_model
from support.random_models import brute, float_models, quantized_models, tried_on
from support.renamed import renamed

from qdqtool.models.diff.matching import Side, match, sites
from qdqtool.models.graph.index.view import GraphView, Value
from qdqtool.models.graph.io.load import load_model
from qdqtool.models.graph.model import Model
from qdqtool.models.transforms.strip import strip_from

HEADER = '<ir_version: 10, opset_import: ["": 21]>'


def view(text: str) -> GraphView:
    return GraphView(text_model(f"{HEADER} g {text}"))


def matched(before: str, after: str) -> dict[str, str]:
    """The outputs of nodes of the first with those of their counterparts."""
    pairs, _ = match(view(before), view(after))
    return {node.key[0]: other.key[0] for node, other in pairs.items()}


@tried_on(40)
@given(float_models())
def test_a_renamed_model_has_each_node_at_its_place(model: Model) -> None:
    before, after = GraphView(model), GraphView(Model(renamed(model.proto)))
    pairs, scopes = match(before, after)
    assert [pairs[node].proto.op_type for node in before.nodes()] == [node.op_type for node in before.nodes()]
    assert [pairs[node] for node in before.nodes()] == list(after.nodes())
    assert [scopes[scope] for scope in before.scopes] == list(after.scopes)


@tried_on(25)
@given(quantized_models())
def test_each_node_of_a_quantized_model_is_found_in_the_stripped_one(model: Model) -> None:
    """All whose outputs both models have; a node with bodies is another one without the Q/DQ in them."""
    if brute.counts(model.proto)["If"]:
        return
    stripped = strip_from(model).model
    pairs, _ = match(GraphView(model), GraphView(stripped))
    plain = {node.output[0] for node in brute.all_nodes(model.proto) if node.op_type not in QDQ}
    there = {node.output[0] for node in brute.all_nodes(stripped.proto)}
    found = {node.key[0]: other.key[0] for node, other in pairs.items()}
    assert found.keys() >= plain & there
    assert len(set(found.values())) == len(found)
    assert not set(found) & {node.output[0] for node in brute.all_nodes(model.proto) if node.op_type in QDQ}


QDQ = (brute.QUANTIZE, brute.DEQUANTIZE)

ONE = "(float[2] x) => (float[2] y)"

CASES = {
    "names and what is above": (
        f"{ONE} {{ a = Abs(x)  b = Abs(x)  c = Exp(a)  y = Add(b, c) }}",
        f"{ONE} {{ b = Abs(x)  a = Abs(x)  d = Tanh(a)  y = Add(b, d) }}",
        {"a": "a", "b": "b", "y": "y"},
    ),
    "names count only where what is above agrees": (
        f"{ONE} {{ a = Abs(x)  b = Exp(x)  y = Add(a, b) }}",
        f"{ONE} {{ b = Abs(x)  a = Exp(x)  y = Add(b, a) }}",
        {"a": "b", "b": "a", "y": "y"},
    ),
    "what is above and below": (
        f"{ONE} {{ a = Abs(x)  b = Abs(x)  c = Exp(a)  d = Tanh(b)  y = Add(c, d) }}",
        f"{ONE} {{ p = Abs(x)  r = Abs(x)  s = Tanh(p)  t = Exp(r)  y = Add(t, s) }}",
        {"a": "r", "b": "p", "c": "t", "d": "s", "y": "y"},
    ),
    "what is above": (
        f"{ONE} {{ a = Abs(x)  b = Exp(a)  y = Neg(b) }}",
        f"{ONE} {{ p = Abs(x)  q = Exp(p)  y = Tanh(q) }}",
        {"a": "p", "b": "q"},
    ),
    "outputs, where all else differs": (
        f"{ONE} {{ a = Abs(x)  b = Exp(a)  c = Neg(b)  y = Relu(c) }}",
        f"{ONE} {{ e = Sin(x)  b = Exp(e)  c = Cos(b)  y = Relu(c) }}",
        {"b": "b", "y": "y"},
    ),
    "names of nodes": (
        f"{ONE} {{ a = Abs(x)  [one] b = Exp(a)  c = Neg(b)  y = Sin(c) }}",
        f"{ONE} {{ p = Cos(x)  [one] q = Exp(p)  r = Tanh(q)  y = Relu(r) }}",
        {"b": "q"},
    ),
    "names of nodes of the same operator": (
        f"{ONE} {{ a = Abs(x)  [one] b = Exp(a)  c = Neg(b)  y = Sin(c) }}",
        f"{ONE} {{ p = Cos(x)  [one] q = Sqrt(p)  r = Tanh(q)  y = Relu(r) }}",
        {},
    ),
    "twins in their order": (
        f"{ONE} {{ a = Abs(x)  b = Abs(x)  y = Add(a, b) }}",
        f"{ONE} {{ p = Abs(x)  q = Abs(x)  y = Add(p, q) }}",
        {"a": "p", "b": "q", "y": "y"},
    ),
    "twins with other readers": (
        f"{ONE} {{ a = Abs(x)  b = Abs(x)  c = Exp(a)  d = Exp(b)  y = Add(c, d) }}",
        f"{ONE} {{ p = Abs(x)  q = Abs(x)  r = Tanh(p)  s = Tanh(q)  y = Sub(r, s) }}",
        {"a": "p", "b": "q"},
    ),
    "more twins than before": (
        f"{ONE} {{ a = Abs(x)  b = Abs(x)  y = Add(a, b) }}",
        f"{ONE} {{ p = Abs(x)  q = Abs(x)  r = Abs(x)  y = Max(p, q, r) }}",
        {"a": "p", "b": "q"},
    ),
    "what is below": (
        f"{ONE} {{ a = Abs(x)  b = Exp(a)  w = Neg(b)  y = Sin(w) }}",
        f"{ONE} {{ p = Cos(x)  q = Exp(p)  r = Neg(q)  y = Sin(r) }}",
        {"b": "q", "w": "r", "y": "y"},
    ),
    "the order of inputs": (
        "(float[2] x, float[2] z) => (float[2] y) { a = Abs(x)  b = Abs(z)  y = Sub(a, b) }",
        "(float[2] z, float[2] x) => (float[2] y) { p = Abs(x)  q = Abs(z)  y = Sub(q, p) }",
        {"a": "q", "b": "p", "y": "y"},
    ),
    "the order of outputs": (
        "(float[2] x) => (float[2] y, float[2] z) { y = Abs(x)  z = Abs(x) }",
        "(float[2] x) => (float[2] w, float[2] v) { v = Abs(x)  w = Abs(x) }",
        {"y": "w", "z": "v"},
    ),
    "which of several outputs is read": (
        "(float[4] x) => (float[2] y) { a, b = Split<num_outputs = 2>(x)  c = Exp(a)  d = Exp(b)  y = Sub(c, d) }",
        "(float[4] x) => (float[2] y) { p, q = Split<num_outputs = 2>(x)  s = Exp(q)  t = Exp(p)  y = Sub(t, s) }",
        {"a": "p", "c": "t", "d": "s", "y": "y"},
    ),
    "which input reads it": (
        f"{ONE} {{ a = Abs(x)  b = Abs(x)  y = Sub(a, b) }}",
        f"{ONE} {{ p = Abs(x)  q = Abs(x)  y = Sub(q, p) }}",
        {"a": "q", "b": "p", "y": "y"},
    ),
    "the shape of what is stored": (
        """(float[2] x) => (float[2] y) <float[1] v = {1}, float[2] w = {1, 2}>
            { a = Add(x, v)  b = Add(x, w)  y = Add(a, b) }""",
        """(float[2] x) => (float[2] y) <float[1] v = {7}, float[2] w = {8, 9}>
            { p = Add(x, w)  q = Add(x, v)  y = Add(p, q) }""",
        {"a": "q", "b": "p", "y": "y"},
    ),
    "what is stored in a node or beside the nodes": (
        "(float[2] x) => (float[2] y) <float[2] w = {1, 2}> { a = Add(x, w)  b = Neg(x)  y = Add(a, b) }",
        """(float[2] x) => (float[2] y) { w = Constant<value = float[2] {3, 4}>()  p = Add(x, w)  q = Neg(x)
             y = Add(p, q) }""",
        {"a": "p", "b": "q", "y": "y"},
    ),
    "Q and DQ count for nothing": (
        "(float[2] x) => (float[2] y) { a = Abs(x)  b = Exp(a)  y = Neg(b) }",
        """(float[2] x) => (float[2] y) <float s = {0.5}, int8 z = {0}> { p = Abs(x)  q = QuantizeLinear(p, s, z)
             d = DequantizeLinear(q, s, z)  r = Exp(d)  y = Neg(r) }""",
        {"a": "p", "b": "r", "y": "y"},
    ),
    "a stored weight behind a DQ": (
        """(float[2] x) => (float[2] y) <float[2] w = {1, 2}, float[1] v = {1}> { a = Add(x, w)  b = Add(x, v)
             y = Add(a, b) }""",
        """(float[2] x) => (float[2] y) <int8[2] w = {1, 2}, float[1] v = {1}, float s = {0.5}>
            { d = DequantizeLinear(w, s)  p = Add(x, v)  q = Add(x, d)  y = Add(q, p) }""",
        {"a": "q", "b": "p", "y": "y"},
    ),
    "a scale is not what is read": (
        "(float[2] x, float s) => (float[2] y) { a = Abs(s)  b = Abs(x)  y = Neg(b) }",
        """(float[2] x, float s) => (float[2] y) { p = Abs(x)  r = Abs(s)  q = QuantizeLinear(p, r)
             d = DequantizeLinear(q, r)  y = Neg(d) }""",
        {"a": "r", "b": "p", "y": "y"},
    ),
    "an absent input": (
        f"{ONE} {{ a = Abs(x)  y = Clip(x, '', a) }}".replace("'", '"'),
        f"{ONE} {{ p = Abs(x)  y = Clip(x, p) }}",
        {"a": "p", "y": "y"},
    ),
    "attributes": (
        "(float[2,2] x) => (float[2,2] y) { a = Softmax<axis = 0>(x)  b = Softmax<axis = 1>(x)  y = Add(a, b) }",
        "(float[2,2] x) => (float[2,2] y) { p = Softmax<axis = 1>(x)  q = Softmax<axis = 0>(x)  y = Add(p, q) }",
        {"a": "q", "b": "p", "y": "y"},
    ),
}


FREE = "(float[2] x, float f) => (float[2] y)"

MISLED = {
    "a name where what is above agrees counts more than readers": (
        f"{FREE} {{ a = Abs(x)  b = Abs(x)  c = Exp(a)  d = Tanh(b)  y = Add(c, d) }}",
        f"{FREE} {{ a = Abs(x)  b = Abs(x)  c = Tanh(a)  d = Exp(b)  y = Add(c, d) }}",
        {"a": "a", "b": "b", "c": "d", "d": "c", "y": "y"},
    ),
    "readers count more than a name elsewhere": (
        f"{FREE} {{ a = Abs(x)  b = Abs(x)  c = Exp(a)  d = Tanh(b)  y = Sub(c, d) }}",
        f"{FREE} {{ p = Abs(x)  q = Abs(x)  r = Exp(q)  s = Tanh(p)  y = Sub(r, s)  a = Abs(f) }}",
        {"a": "q", "b": "p", "c": "r", "d": "s", "y": "y"},
    ),
    "what is above counts more than a name elsewhere": (
        f"{FREE} {{ a = Abs(x)  b = Exp(a)  y = Neg(b) }}",
        f"{FREE} {{ p = Abs(x)  q = Exp(p)  a = Abs(q)  y = Tanh(a) }}",
        {"a": "p", "b": "q"},
    ),
    "names of nodes count more than the order of twins": (
        f"{FREE} {{ [one] a = Abs(x)  [two] b = Abs(x)  c = Exp(a)  y = Sin(b) }}",
        f"{FREE} {{ [two] p = Abs(x)  [one] q = Abs(x)  r = Tanh(q)  y = Cos(p) }}",
        {"a": "q", "b": "p"},
    ),
    "twins with the same readers come before other twins": (
        f"""{FREE} {{ a = Abs(x)  b = Abs(x)  c = Abs(x)  d = Abs(x)  e = Exp(a)  g = Exp(b)  h = Tanh(c)  i = Tanh(d)
            y = Neg(x) }}""",
        f"""{FREE} {{ p = Abs(x)  q = Abs(x)  r = Abs(x)  s = Abs(x)  j = Tanh(p)  k = Tanh(q)  l = Exp(r)  m = Exp(s)
            y = Neg(x) }}""",
        {"a": "r", "b": "s", "c": "p", "d": "q", "e": "l", "g": "m", "h": "j", "i": "k", "y": "y"},
    ),
    "two steps above": (
        f"{FREE} {{ a = Abs(x)  n = Neg(x)  b = Exp(a)  e = Exp(n)  y = Cos(x) }}",
        f"{FREE} {{ p = Neg(x)  q = Abs(x)  r = Exp(p)  s = Exp(q)  y = Cos(x) }}",
        {"a": "q", "n": "p", "b": "s", "e": "r", "y": "y"},
    ),
    "two steps above, through Q and DQ": (
        f"{FREE} {{ a = Abs(x)  n = Neg(x)  b = Exp(a)  e = Exp(n)  y = Cos(x) }}",
        f"""{FREE} {{ p = Neg(x)  q = Abs(x)  pq = QuantizeLinear(p, f)  pd = DequantizeLinear(pq, f)
            qq = QuantizeLinear(q, f)  qd = DequantizeLinear(qq, f)  r = Exp(pd)  s = Exp(qd)  y = Cos(x) }}""",
        {"a": "q", "n": "p", "b": "s", "e": "r", "y": "y"},
    ),
    "shapes of stored nodes": (
        """(float[2] x) => (float[2] y) <float[2] w = {1, 2}, float[1] v = {1}> { a = Add(x, w)  b = Add(x, v)
            y = Cos(x) }""",
        """(float[2] x) => (float[2] y) { v = Constant<value = float[1] {3}>()  w = Constant<value = float[2] {3, 4}>()
            p = Add(x, v)  q = Add(x, w)  y = Cos(x) }""",
        {"a": "q", "b": "p", "y": "y"},
    ),
    "readers behind an absent input": (
        f'{FREE} {{ a = Abs(f)  b = Abs(f)  y = Clip(x, "", a) }}',
        f'{FREE} {{ p = Abs(f)  q = Abs(f)  y = Clip(x, "", q) }}',
        {"a": "q", "b": "p", "y": "y"},
    ),
    "readers behind Q and DQ": (
        f"{FREE} {{ a = Abs(x)  b = Abs(x)  y = Exp(a) }}",
        f"""{FREE} {{ p = Abs(x)  q = Abs(x)  r = QuantizeLinear(q, f)  d = DequantizeLinear(r, f)  y = Exp(d) }}""",
        {"a": "q", "b": "p", "y": "y"},
    ),
    "readers of a scale are none of the data": (
        f"{FREE} {{ a = Abs(f)  b = Abs(f)  c = Exp(b)  y = Exp(x) }}",
        f"""{FREE} {{ p = Abs(f)  r = Abs(f)  s = Exp(r)  q = QuantizeLinear(x, p)  d = DequantizeLinear(q, p)
            y = Exp(d) }}""",
        {"a": "p", "b": "r", "c": "s", "y": "y"},
    ),
}


@pytest.mark.parametrize("name", MISLED)
def test_names_and_order_do_not_mislead(name: str) -> None:
    before, after, expected = MISLED[name]
    assert matched(before, after) == expected


@pytest.mark.parametrize("missing", ["input", "output"])
def test_a_q_without_inputs_or_outputs_is_no_reason_to_fail(missing: str) -> None:
    model = text_model(f"{HEADER} g {FREE} {{ a = Abs(x)  q = QuantizeLinear(a, f)  y = Exp(x) }}")
    model.proto.graph.node[1].ClearField(missing)
    pairs, _ = match(GraphView(model), GraphView(model))
    assert [node.key for node in pairs] == [("a",), ("y",)]


def test_a_node_that_lost_its_body_is_matched_without_it() -> None:
    header = '<ir_version: 10, opset_import: ["": 21, "other": 1]> g (float[2] x) => (float[2] y)'
    body = "body = t () => (float[2] a) { a = Exp(x) }"
    before, after = (
        GraphView(text_model(f"{header} {{ y = other.Wrap{attribute}(x) }}")) for attribute in (f"<{body}>", "")
    )
    pairs, scopes = match(before, after)
    assert ([node.key for node in pairs], [scope.path for scope in scopes]) == ([("y",)], [()])


@pytest.mark.parametrize("name", CASES)
def test_what_is_matched(name: str) -> None:
    before, after, expected = CASES[name]
    assert matched(before, after) == expected


BODIES = """(float[2] x, bool c) => (float[2] y) { y = If(c) <
    then_branch = t () => (float[2] a) { a = %s(x) },
    else_branch = e () => (float[2] b) { b = %s(x) }> }"""


def test_bodies_are_matched_by_the_attribute_that_holds_them() -> None:
    model = text_model(f"{HEADER} g {BODIES % ('Exp', 'Exp')}")
    before, after = GraphView(model), GraphView(Model(renamed(model.proto)))
    pairs, scopes = match(before, after)
    branches = {scope.path[-1].split(".")[-1]: scopes[scope].path[-1].split(".")[-1] for scope in before.scopes[1:]}
    assert branches == {"then_branch": "then_branch", "else_branch": "else_branch"}
    assert len(pairs) == 3


def test_bodies_of_what_is_not_matched_have_no_counterpart() -> None:
    other = "(float[2] x, bool c) => (float[2] y) { y = Abs(x) }"
    pairs, scopes = match(view(BODIES % ("Exp", "Sin")), view(other))
    assert pairs == {}
    assert [scope.path for scope in scopes] == [()]


def with_functions(*names: str) -> GraphView:
    functions = "".join(
        f'<domain: "f", opset_import: ["": 21]> {name} (a) => (b) {{ b = {body}(a) }}\n'
        for name, body in (each.split(":") for each in names)
    )
    calls = "".join(f"t{n + 1} = f.{name.split(':')[0]}(t{n}) " for n, name in enumerate(names))
    header = '<ir_version: 10, opset_import: ["": 21, "f": 1]>'
    text = f"{header} g (float[2] t0) => (float[2] y) {{ {calls} y = Neg(t{len(names)}) }}\n{functions}"
    return GraphView(Model(onnx.parser.parse_model(text)))


def test_functions_are_matched_by_their_names() -> None:
    before, after = with_functions("One:Exp", "Two:Abs"), with_functions("Three:Sin", "One:Exp")
    pairs, scopes = match(before, after)
    assert [(scope.path, other.path) for scope, other in scopes.items()] == [((), ()), (("f::One",), ("f::One",))]
    assert "Exp" in {node.op_type for node in pairs}
    assert {node.op_type for node in pairs} == {other.op_type for other in pairs.values()}


def test_what_stands_later_is_no_reason_to_fail() -> None:
    """A node may not read what stands below it, but a file can say so."""
    model = text_model(f"{HEADER} g {ONE} {{ a = Abs(x)  y = Neg(a) }}")
    nodes = list(model.proto.graph.node)
    del model.proto.graph.node[:]
    model.proto.graph.node.extend(reversed(nodes))
    pairs, _ = match(GraphView(model), GraphView(model))
    assert sorted(node.key[0] for node in pairs) == ["a", "y"]


CONSTANTS = "<float s = {0.5}, int8 z = {0}, int8[2] w = {1, 2}>"


def side(body: str, inputs: str = "float[2] x") -> Side:
    return Side(text_model(f"{HEADER} g ({inputs}) => (float[2] y) {CONSTANTS} {{ {body} }}"))


def told(of: Side, name: str) -> tuple[list[tuple[str | None, str | None]], str | None]:
    """The outputs of Q and DQ of each step in front of a tensor, and the tensor in front of them."""
    steps, source = of.steps(value(of, name))

    def output(entry) -> str | None:
        return entry.output.name if entry is not None else None

    return [(output(step.quantize), output(step.dequantize)) for step in steps], source.name if source else None


def value(of: Side, name: str) -> Value:
    return of.index.view.main.values[name]


PAIR = "q = QuantizeLinear (x, s, z) d = DequantizeLinear (q, s, z)"


@pytest.mark.parametrize(
    ("body", "name", "steps", "source"),
    [
        ("y = Neg (x)", "x", [], "x"),
        (f"{PAIR} y = Neg (d)", "d", [("q", "d")], "x"),
        (f"{PAIR} y = Neg (d)", "y", [], "y"),
        (f"{PAIR} y = Neg (d)", "q", [("q", None)], "x"),
        ("d = DequantizeLinear (w, s, z) y = Add (x, d)", "d", [(None, "d")], "w"),
        (
            f"{PAIR} p = QuantizeLinear (d, s, z) e = DequantizeLinear (p, s, z) y = Neg (e)",
            "e",
            [("p", "e"), ("q", "d")],
            "x",
        ),
        (
            "d = DequantizeLinear (w, s, z) p = QuantizeLinear (d, s, z) y = DequantizeLinear (p, s, z)",
            "y",
            [("p", "y"), (None, "d")],
            "w",
        ),
        (f"{PAIR} p = QuantizeLinear (d, s, z) y = Cast <to = 1> (p)", "p", [("p", None), ("q", "d")], "x"),
    ],
)
def test_steps_are_told_from_the_nearest(
    body: str, name: str, steps: list[tuple[str | None, str | None]], source: str
) -> None:
    assert told(side(body), name) == (steps, source)


def test_no_tensor_has_no_steps() -> None:
    assert side("y = Neg (x)").steps(None) == ((), None)


def test_steps_end_after_sixteen() -> None:
    pairs = "".join(f" q{n} = QuantizeLinear (d{n}, s, z) d{n + 1} = DequantizeLinear (q{n}, s, z)" for n in range(17))
    long = side(f"d0 = Neg (x) {pairs} y = Neg (d{17})")
    assert len(told(long, "d17")[0]) == 16
    assert told(long, "d17")[1] == "d1"
    assert len(told(long, "d16")[0]) == 16


def test_what_a_step_is_named_after() -> None:
    both = side(f"{PAIR} v = DequantizeLinear (w, s, z) y = Add (d, v)")
    (pair,), _ = both.steps(value(both, "d"))
    (alone,), _ = both.steps(value(both, "v"))
    (codes,), _ = both.steps(value(both, "q"))
    assert [step.main.output.name for step in (pair, alone, codes)] == ["d", "v", "q"]
    assert [step.first.output.name for step in (pair, alone, codes)] == ["q", "v", "q"]
    assert [step.source.name for step in (pair, alone, codes)] == ["x", "w", "x"]


def test_each_input_of_each_other_node_is_a_site_and_each_output() -> None:
    made = side(f'{PAIR} [c] c = Clip (d, "", s) [neg] y = Neg (c)')
    found = list(sites(made.index.view.main))
    assert [site.label for site in found] == ["c[0]", "c[2]", "neg", "output y"]
    assert [site.value.name for site in found if site.value is not None] == ["d", "s", "c", "y"]


def test_an_unnamed_model_is_in_memory(tmp_path: Path) -> None:
    made = side("y = Neg (x)")
    assert made.path == "<memory>"
    onnx.save(made.model.proto, tmp_path / "m.onnx")
    assert Side(load_model(tmp_path / "m.onnx")).path == str(tmp_path / "m.onnx")
