"""A place in a quantized model has its counterpart in the baseline, though quantizing appended words to names."""

from onnx import parser

from qdqtool.checking.baseline_matcher import BaselineMatcher
from qdqtool.graph.index.view import GraphView
from qdqtool.graph.model import Model
from qdqtool.transforms.taps import Hop, Tap

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
