"""Parts of a graph: what a product reads is made in an earlier part than the product."""

import onnx
import pytest

from qdqtool.models.running.graph_parts import BEFORE, cut_by_weights, cut_graph

CHAIN = """<ir_version: 8, opset_import: ["": 17]>
g (float[2,4] x) => (float[2,4] z, float[2,4] y)
<float[4,4] w> {
    t = Transpose (w)
    a = Relu (x)
    p = MatMul (a, t)
    b = Add (p, a)
    q = MatMul (b, t)
    r = MatMul (b, w)
    y = Add (q, r)
    z = Neg (y)
}
"""


def graph(text=CHAIN):
    return onnx.parser.parse_model(text).graph


def made_in(parts):
    return [[node.output[0] for node in part.nodes] for part in parts.parts]


def test_each_product_is_behind_its_activation_and_constants_are_where_they_are_read():
    parts = cut_graph(graph(), {("p",): "a", ("q",): "b", ("r",): "b"}, ["x"])
    assert made_in(parts) == [["a"], ["t", "p", "b"]]
    assert [part.kept for part in parts.parts] == [{"a"}, {"b"}]
    assert parts.made == {"x": BEFORE, "a": 0, "p": 1, "b": 1}


def test_tensors_are_dropped_behind_their_last_reader():
    parts = cut_graph(graph(), {("p",): "a", ("y",): "q"}, ["x"])
    assert made_in(parts) == [["a"], ["t", "p", "b", "q"]]
    assert "x" in parts.parts[0].unread
    assert "a" in parts.parts[1].unread
    assert not {"a", "b"} & parts.parts[0].unread


def test_a_constant_node_is_in_every_part_that_needs_it():
    parts = cut_graph(graph(), {("p",): "a", ("q",): "b", ("z",): "q"}, ["x"])
    assert made_in(parts) == [["a"], ["t", "p", "b"], ["t", "q"]]


def test_what_a_product_reads_of_the_caller_is_known_before_any_part():
    parts = cut_graph(graph(), {("a",): "x", ("p",): "a"}, ["x"])
    assert parts.made["x"] == BEFORE
    assert made_in(parts) == [["a"]]


def test_a_constant_activation_is_made_in_no_part():
    assert "t" not in cut_graph(graph(), {("p",): "t"}, ["x"]).made


BODY = """<ir_version: 8, opset_import: ["": 17]>
g (float[2,4] x, bool flag) => (float[2,4] y)
<float[4,4] w> {
    a = Relu (x)
    p = MatMul (a, w)
    c = If (flag) <
        then_branch = t () => (float[2,4] r) { r = Add (p, a) },
        else_branch = e () => (float[2,4] s) { s = Neg (a) }
    >
    y = MatMul (c, w)
}
"""


@pytest.mark.parametrize("inputs", [["x", "flag"]])
def test_what_a_body_reads_is_kept_for_it(inputs):
    parts = cut_graph(graph(BODY), {("p",): "a", ("y",): "c"}, inputs)
    assert made_in(parts) == [["a"], ["p", "c"]]
    assert parts.parts[0].kept == {"a"}
    assert parts.parts[1].kept == {"c"}


WEIGHTS = """<ir_version: 8, opset_import: ["": 17]>
g (float[2,4] x) => (float[2,4] y)
<float[4,4] v, float[4,4] w> {
    t = Transpose (w)
    a = MatMul (x, t)
    b = MatMul (a, w)
    c = MatMul (b, v)
    y = MatMul (c, w)
}
"""


@pytest.mark.parametrize(
    ("sizes", "limit", "made"),
    [
        # A weight counts once in a part, also behind the node that moves it.
        ({"v": 1, "w": 2}, 3, [["t", "a", "b", "c", "y"]]),
        ({"v": 1, "w": 2}, 2, [["t", "a", "b"], ["c"], ["y"]]),
        # A node may have more than the limit.
        ({"v": 1, "w": 9}, 2, [["t", "a", "b"], ["c"], ["y"]]),
        ({"v": 9, "w": 1}, 2, [["t", "a", "b"], ["c"], ["y"]]),
        ({}, 0, [["t", "a", "b", "c", "y"]]),
    ],
)
def test_a_part_ends_where_the_next_weight_would_be_too_much(sizes, limit, made):
    parts = cut_by_weights(graph(WEIGHTS), sizes, limit, ["x"], ["y"])
    assert made_in(parts) == made
    assert "y" in parts.parts[-1].kept
    assert "y" not in parts.parts[-1].unread
