"""Places of new nodes: after what they read and right before their first reader; all others keep theirs."""

import numpy as np
import onnx
import pytest
from hypothesis import given
from hypothesis import strategies as st
from onnx import helper
from support.edited import CHAIN, outputs_in_order, text_model
from support.rich_model import rich_model

from qdqtool.models.graph.edits.copy_changes import add_in_place, free_names, names_read, rearrange
from qdqtool.models.graph.edits.edit import AddInitializer, AddNode, Edit, SetInput
from qdqtool.models.graph.edits.surgeon import EditError, apply_edits
from qdqtool.models.graph.io.tensors import make_tensor
from qdqtool.models.graph.model import Model
from qdqtool.models.graph.scope import MAIN

BLOCK = ("com.example.blocks::Block",)


def chain_of(reads):
    """Nodes n0, n1, ...: node i reads the outputs of the nodes named by ``reads[i]``, or the input x."""
    return [
        helper.make_node("Sum", [f"n{read}" for read in sorted(before)] or ["x"], [f"n{index}"])
        for index, before in enumerate(reads)
    ]


@st.composite
def graphs(draw):
    """A directed graph without cycles, which of its nodes are new, and the old ones in topological order."""
    count = draw(st.integers(1, 8))
    reads = [draw(st.sets(st.integers(0, index - 1), max_size=3)) if index else set() for index in range(count)]
    new = draw(st.sets(st.integers(0, count - 1)))
    return chain_of(reads), new, draw(st.permutations(sorted(new)))


@given(graphs())
def test_nodes_stay_in_topological_order_and_old_ones_in_theirs(drawn):
    nodes, new, order = drawn
    container = onnx.GraphProto(node=[node for index, node in enumerate(nodes) if index not in new])
    old = [node.output[0] for node in container.node]
    add_in_place(container, [nodes[index] for index in order], ())
    placed = [node.output[0] for node in container.node]
    assert sorted(placed) == sorted(node.output[0] for node in nodes)
    place = {name: index for index, name in enumerate(placed)}
    assert all(place[read] < place[node.output[0]] for node in nodes for read in node.input if read != "x")
    assert [name for name in placed if name in set(old)] == old
    assert sorted(container.node, key=lambda node: node.output[0]) == sorted(nodes, key=lambda node: node.output[0])


@given(st.permutations(range(6)))
def test_nodes_are_put_into_the_order_given(order):
    container = onnx.GraphProto(node=chain_of([set()] * 6))
    rearrange(container, order)
    assert [node.output[0] for node in container.node] == [f"n{position}" for position in order]


def test_a_long_chain_is_no_deep_recursion():
    container = onnx.GraphProto()
    nodes = chain_of([set(), *({index} for index in range(5_000))])
    add_in_place(container, list(reversed(nodes)), ())
    assert [node.output[0] for node in container.node] == [node.output[0] for node in nodes]


def test_a_body_reads_what_it_neither_takes_nor_makes_nor_stores():
    model = onnx.parser.parse_graph(
        "b (float[4] given) => (float[4] made, float[4] around) <float[4] stored = {1,2,3,4}> {"
        "  made = Sum(given, stored, outer)  other = If(c) <"
        "    then_branch = t () => (float[4] p) { p = Add(made, deep) },"
        "    else_branch = e () => (float[4] deep) { } > }"
    )
    model.sparse_initializer.add().values.name = "sparse"
    model.node[0].input.append("sparse")
    assert free_names(model) == {"outer", "around", "c", "deep"}


def test_names_read_are_those_of_the_node_and_of_its_bodies():
    node = onnx.parser.parse_graph(
        "g (bool c) => (float[4] y) { y = If(c) <then_branch = t () => (float[4] p) { p = Add(b, a) }> }"
    ).node[0]
    node.input.append("")
    assert names_read(node) == ["c", "a", "b"]


def test_cycles_of_any_length_are_refused():
    for length in (1, 2, 5):
        container = onnx.GraphProto()
        ring = chain_of([{(index + 1) % length} for index in range(length)])
        with pytest.raises(EditError, match="the edits make a cycle through tensor 'n"):
            add_in_place(container, ring, ())


def identity(source: str, output: str) -> AddNode:
    return AddNode(MAIN, "Identity", (source,), (output,), output)


BRANCHES = (
    "y = If(c) <then_branch = t () => (float[4] p) { p = Relu(x) }, else_branch = e () => (float[4] q) { q = Abs(x) }>"
)
ONE_INPUT = "g (float[4] x) => (float[4] y, float[4] z)"
WITH_BRANCHES = "g (float[4] x, bool c) => (float[4] y, float[4] z)"
PLACES: dict[str, tuple[str, list[Edit], str]] = {
    "right before its first reader": (CHAIN, [identity("a", "c"), SetInput(MAIN, ("y",), 0, "c")], "a b c y"),
    "new nodes that read each other": (
        CHAIN,
        [identity("d", "e"), identity("c", "d"), identity("a", "c"), SetInput(MAIN, ("b",), 0, "e")],
        "a c d e b y",
    ),
    "before the owner of a body that reads it": (
        f"{WITH_BRANCHES} {{ z = Neg(x)  {BRANCHES} }}",
        [identity("x", "n"), SetInput(("y.else_branch",), ("q",), 0, "n")],
        "z n y",
    ),
    "at the end where no node reads it": (CHAIN, [identity("a", "unread")], "a b y unread"),
    "a later node that a changed one reads": (
        f"{ONE_INPUT} {{ y = Relu(x)  a = Neg(x)  b = Abs(a)  z = Neg(b) }}",
        [SetInput(MAIN, ("y",), 0, "b")],
        "a b y z",
    ),
    "a later node that a changed body reads": (
        f"{WITH_BRANCHES} {{ {BRANCHES}  z = Neg(x) }}",
        [SetInput(("y.else_branch",), ("q",), 0, "z")],
        "z y",
    ),
}


@pytest.mark.parametrize(("text", "edits", "order"), PLACES.values(), ids=PLACES.keys())
def test_nodes_stand_after_what_they_read_and_before_their_first_reader(
    text: str, edits: list[Edit], order: str
) -> None:
    changed = apply_edits(text_model(text), edits)
    assert outputs_in_order(changed) == order.split()
    onnx.checker.check_model(changed.proto)


def test_an_unsorted_model_keeps_its_order() -> None:
    model = text_model(CHAIN)
    model.proto.graph.node.reverse()
    edits = [identity("x", "c"), SetInput(MAIN, ("a",), 0, "c")]
    assert outputs_in_order(apply_edits(model, edits)) == ["y", "b", "c", "a"]


def test_constants_of_a_function_stand_first() -> None:
    edits = [AddInitializer(BLOCK, make_tensor(name, np.float32(1), 1)) for name in ("first", "second")]
    assert outputs_in_order(apply_edits(Model(rich_model()), edits), BLOCK)[:2] == ["first", "second"]


def test_a_cycle_is_refused() -> None:
    with pytest.raises(EditError, match="cycle"):
        apply_edits(text_model(CHAIN), [SetInput(MAIN, ("a",), 0, "y")])
