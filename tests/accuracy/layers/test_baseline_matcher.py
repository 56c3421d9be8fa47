"""Counterparts of quantized tensors, bodies and calls in a float model."""

import onnx
import pytest
from onnx import helper, parser

from qdqtool.accuracy.layers.baseline_matcher import BaselineMatcher
from qdqtool.models.graph.index.model_index import ModelIndex
from qdqtool.models.graph.index.view import GraphView
from qdqtool.models.graph.model import Model
from qdqtool.models.transforms.taps import Hop, Tap

BASELINE = """
<ir_version: 10, opset_import: ["": 21, "my": 1]>
g (float[2] x, bool c) => (float[2] y)
{
  a = my.Twice (x)
  y = If (c) <
    then_branch = t () => (float[2] p) { p = Neg (a) },
    else_branch = e () => (float[2] q) { q = Abs (a) }
  >
}
<domain: "my", opset_import: ["": 21]>
Twice (u) => (w) { w = Add (u, u) }
"""


def counterpart(*hops: Hop) -> tuple[Hop, ...]:
    view = GraphView(Model(parser.parse_model(BASELINE)))
    matcher = BaselineMatcher(view, view)
    return matcher.tap(Tap("out", hops)).hops


def test_bodies_and_calls_are_found_without_the_words_that_tools_append():
    body, call = Hop("y.then_branch"), Hop("a", is_call=True)
    assert counterpart(body, call) == (body, call)
    renamed = Hop("y_QuantizeInput.then_branch"), Hop("a_DequantizeLinear_Output", is_call=True)
    assert counterpart(*renamed) == (body, call)


def test_what_the_baseline_does_not_have_keeps_its_name():
    unknown = Hop("z_float.then_branch"), Hop("z_float", is_call=True)
    assert counterpart(*unknown) == unknown


def test_a_body_may_be_called_as_if_it_were_a_call():
    """The name of a tensor decides nothing about the place."""
    model = parser.parse_model(BASELINE)
    model.graph.node[1].output[0] = model.graph.output[0].name = "call y"
    hop, view = Hop("call y_float.then_branch"), GraphView(Model(model))
    assert BaselineMatcher(view, view).tap(Tap("out", (hop,))).hops == (Hop("call y.then_branch"),)


def test_bodies_and_calls_with_other_names_are_found_by_their_structure():
    model = parser.parse_model(BASELINE.replace(" a", " one").replace(" y", " two"))
    matcher = BaselineMatcher(GraphView(Model(parser.parse_model(BASELINE))), GraphView(Model(model)))
    hops = Hop("two.else_branch"), Hop("one", is_call=True)
    assert matcher.tap(Tap("out", hops)).hops == (Hop("y.else_branch"), Hop("a", is_call=True))


# --- the tensors that a Q or DQ may stand for, the best first ---

QUANTIZED = """
<ir_version: 10, opset_import: ["": 21]>
g (float[2] x) => (float[2] y) <float s = {0.5}, int8 z = {0}, int8[2] w_quantized = {1, 2}>
{
  a, c = Split <num_outputs = 2> (x)
  cq = QuantizeLinear (c, s, z)
  cd = DequantizeLinear (cq, s, z)
  w_DequantizeLinear_Output = DequantizeLinear (w_quantized, s, z)
  b = Add (cd, w_DequantizeLinear_Output)
  bq = QuantizeLinear (b, s, z)
  bd = DequantizeLinear (bq, s, z)
  y_QuantizeInput = Relu (bd)
  yq = QuantizeLinear (y_QuantizeInput, s, z)
  y = DequantizeLinear (yq, s, z)
}
"""


def float_text(*, nodes: str, weight: str = "w") -> str:
    head = '<ir_version: 10, opset_import: ["": 21]> g (float[2] x) => (float[2] y)'
    return f"{head} <float[2] {weight} = {{1, 2}}> {{ {nodes} }}"


def candidates(baseline: str, model: str | onnx.ModelProto) -> dict[str, list[str]]:
    """The names that each node yields, by the tensor that it makes."""
    index = ModelIndex.of(Model(parser.parse_model(model) if isinstance(model, str) else model))
    matcher = BaselineMatcher(GraphView(Model(parser.parse_model(baseline))), index.view)
    found = {entry: [value.name for value in matcher.of(index.qdq, entry)] for entry in index.qdq.nodes}
    return {entry.node.proto.output[0]: names for entry, names in found.items() if entry.is_quantize or names}


@pytest.mark.parametrize(
    ("baseline", "cq", "w", "bq", "yq"),
    [
        pytest.param(
            float_text(nodes="a, c = Split <num_outputs = 2> (x)  b = Add (c, w)  y = Relu (b)"),
            ["c"] * 5,  # what Add reads, what Split makes, the name, what the maker of `b` reads, the name again
            ["w"] * 4,  # what Add reads, what the maker of `b` reads, both names without their suffixes
            ["b"] * 5,
            ["y"] * 3,  # what Relu makes, the name behind the pair, the name before it without its suffix
            id="equal names",
        ),
        pytest.param(
            float_text(nodes="k, m = Split <num_outputs = 2> (x)  p = Add (m, v)  y = Relu (p)", weight="v"),
            ["m", "m"],
            ["v"],
            ["p", "p", "p"],  # and what the maker of `y` reads
            ["y"] * 3,
            id="other names",
        ),
        pytest.param(
            float_text(nodes="b, w = Split <num_outputs = 2> (x)  c = Add (w, v)  y = Relu (c)", weight="v"),
            ["w", "w", "c", "c"],
            ["v", "w", "w"],
            ["c", "c", "b", "c", "b"],
            ["y"] * 3,
            id="names that moved to other tensors",
        ),
        pytest.param(
            float_text(nodes="n = Abs (x)  c = Sin (n)  b = Mul (c, w)  y = Cos (b)"),
            ["c", "c"],
            ["w", "w"],
            ["b", "b"],
            ["y", "y"],
            id="names alone",
        ),
    ],
)
def test_structure_comes_before_names(baseline: str, cq: list, w: list, bq: list, yq: list) -> None:
    expected = {"cq": cq, "w_DequantizeLinear_Output": w, "bq": bq, "yq": yq}
    found = candidates(baseline, QUANTIZED)
    assert {name: found[name] for name in expected} == expected


SAME = float_text(nodes="a, c = Split <num_outputs = 2> (x)  b = Add (c, w)  y = Relu (b)")


def test_codes_that_have_the_name_of_the_float_weight_are_found_by_name_last() -> None:
    baseline = float_text(nodes="k = Abs (x)  b = Add (k, v)  w = Sin (b)  y = Relu (w)", weight="v")
    model = QUANTIZED.replace("w_quantized", "w").replace("w_DequantizeLinear_Output", "wd")
    assert candidates(baseline, model)["wd"] == ["v", "v", "w"]


@pytest.mark.parametrize(("node", "made"), [(1, "cq"), (2, "cd")])
def test_a_node_without_data_stands_for_what_is_read_behind_it(node: int, made: str) -> None:
    model = parser.parse_model(QUANTIZED)
    model.graph.node[node].input[0] = ""
    assert candidates(SAME, model)[made] == ["c", "c"]


def test_in_a_body_that_the_baseline_lacks_only_structure_finds_a_tensor() -> None:
    body = """
    <ir_version: 10, opset_import: ["": 21]>
    g (float[2] x, bool t) => (float[2] y) <float s = {0.5}, int8 z = {0}>
    {
      c = Neg (x)
      y = If (t) <
        then_branch = one () => (float[2] p) { q = QuantizeLinear (c, s, z)  p = DequantizeLinear (q, s, z) },
        else_branch = two () => (float[2] u) {
          c2 = Abs (x)
          v = QuantizeLinear (c2, s, z)
          u = DequantizeLinear (v, s, z)
        }
      >
    }
    """
    assert candidates(float_text(nodes="k = Neg (x)  c2 = Abs (k)  y = Relu (c2)"), body) == {"q": ["k"], "v": []}


@pytest.mark.parametrize("outputs", [(["a"], []), ([], ["a"]), ([], [])])
def test_nodes_without_outputs_are_no_calls(outputs: tuple[list[str], list[str]]) -> None:
    views = []
    for made in outputs:
        model = parser.parse_model(BASELINE)
        model.graph.node.append(helper.make_node("Neg", ["x"], [f"{name}_new" for name in made]))
        views.append(GraphView(Model(model)))
    hop = Hop("a", is_call=True)
    assert BaselineMatcher(*views).tap(Tap("out", (hop,))).hops == (hop,)
