"""Notes in the model that say which rules not to apply: how they are spelled, and what they cover."""

import onnx
import pytest
from support.qdq import LOOP_AND_BRANCHES, text_model

from qdqtool.models.graph.index.suppressions import KEY, read_suppressions
from qdqtool.models.graph.index.view import GraphView


def holder(proto, place):
    """The part of the model that carries a note."""
    loop = next(node for node in proto.graph.node if node.op_type == "Loop")
    return {
        "model": proto,
        "graph": proto.graph,
        "node": proto.graph.node[0],
        "loop": loop,
        "body": loop.attribute[0].g,
        "node in a body": loop.attribute[0].g.node[0],
        "function": proto.functions[0],
        "node in a function": proto.functions[0].node[0],
    }[place]


def view_with(place, value, key=KEY):
    model = text_model(LOOP_AND_BRANCHES)
    holder(model.proto, place).metadata_props.add(key=key, value=value)
    return GraphView(model)


@pytest.mark.parametrize(
    ("value", "found"),
    [
        ("QP101: known", [(("QP101",), "known")]),
        ("QP101", [(("QP101",), "")]),
        ("QP101, QS , ,: two: reasons ", [(("QP101", "QS"), "two: reasons")]),
        ("QA: one\nQB: two\r\n\n", [(("QA",), "one"), (("QB",), "two")]),
        (": a reason and no rule", []),
        ("", []),
    ],
)
def test_a_line_has_codes_and_a_reason(value, found):
    suppressions = read_suppressions(view_with("graph", value))
    assert [(one.prefixes, one.reason) for one in suppressions] == found


def test_other_notes_are_none():
    assert read_suppressions(view_with("graph", "QP101: known", key="qdqtool.other")) == ()


@pytest.mark.parametrize(
    ("place", "said"),
    [
        ("model", "the model"),
        ("graph", "the graph"),
        ("node", "the node"),
        ("body", "the graph"),
        ("function", "the function"),
        ("node in a function", "the node"),
    ],
)
def test_the_place_is_named(place, said):
    (found,) = read_suppressions(view_with(place, "QP101"))
    assert found.place == said


COVERED = {
    "model": lambda _node: True,
    "graph": lambda node: not node.scope.in_function,
    "node": lambda node: node.op_type == "If" or node.scope.path[:1] in {("y.then_branch",), ("y.else_branch",)},
    "loop": lambda node: node.op_type == "Loop" or node.scope.path[:1] == ("z.body",),
    "body": lambda node: node.scope.path[:1] == ("z.body",),
    "node in a body": lambda node: node.key == ("co",),
    "function": lambda node: node.scope.in_function,
    "node in a function": lambda node: node.key == ("fs",),
}


@pytest.mark.parametrize("place", COVERED)
def test_a_note_covers_what_is_inside_what_carries_it(place):
    view = view_with(place, "QP101")
    (found,) = read_suppressions(view)
    nodes = list(view.nodes())
    assert [found.covers(node) for node in nodes] == [bool(COVERED[place](node)) for node in nodes]
    assert any(COVERED[place](node) for node in nodes)


@pytest.mark.parametrize(("place", "covered"), [("model", True), ("graph", True), ("body", False), ("function", False)])
def test_findings_about_the_model_as_a_whole_are_covered_by_notes_of_the_model_and_its_main_graph(place, covered):
    (found,) = read_suppressions(view_with(place, "QP101"))
    assert found.covers(None) is covered


def test_notes_come_with_those_of_the_model_first_and_then_in_the_order_of_the_walk():
    model = text_model(LOOP_AND_BRANCHES)
    for place in ("function", "node in a body", "node", "graph", "model"):
        holder(model.proto, place).metadata_props.add(key=KEY, value=f"Q: {place}")
    found = [one.reason for one in read_suppressions(GraphView(model))]
    assert found == ["model", "graph", "node", "node in a body", "function"]


def test_a_note_that_is_no_text_is_none():
    model = text_model(LOOP_AND_BRANCHES)
    model.proto.graph.metadata_props.add(key=KEY, value="PLACE")
    broken = model.proto.SerializeToString().replace(b"PLACE", b"\xff\xfe:\xff\xff")
    model.proto = onnx.ModelProto.FromString(broken)
    assert read_suppressions(GraphView(model)) == ()


def test_a_note_beside_others_is_read():
    model = text_model(LOOP_AND_BRANCHES)
    for key, value in (("other", "Q: no"), (KEY, "QA: one"), ("more", "Q: no"), (KEY, "QB: two")):
        model.proto.graph.metadata_props.add(key=key, value=value)
    assert [one.prefixes for one in read_suppressions(GraphView(model))] == [("QA",), ("QB",)]
