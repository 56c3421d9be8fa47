"""What is copied from graphsurgeon's export into the model: the requested fields, and nothing it cannot read."""

import numpy as np
import onnx
import pytest
from hypothesis import given
from hypothesis import strategies as st
from onnx import TensorProto, helper
from support.edited import CHAIN, outputs_in_order, text_model
from support.rawdiff import changed_fields
from support.rich_model import rich_model

from qdqtool.models.graph.edits.copy_changes import add_in_place, free_names, names_read, rearrange
from qdqtool.models.graph.edits.edit import (
    AddInitializer,
    AddNode,
    Edit,
    RemoveInitializer,
    RemoveNode,
    RenameOutput,
    SetAttribute,
    SetElementType,
    SetInput,
    SetNodeName,
)
from qdqtool.models.graph.edits.surgeon import EditError, apply_edits
from qdqtool.models.graph.io.tensors import make_tensor
from qdqtool.models.graph.model import Model
from qdqtool.models.graph.scope import MAIN

BLOCK = ("com.example.blocks::Block",)


def test_the_types_of_inner_tensors_are_corrected_and_those_of_inputs_and_outputs_are_a_contract() -> None:
    model = text_model(CHAIN)
    model.proto.graph.value_info.append(helper.make_tensor_value_info("b", TensorProto.FLOAT, [4]))
    model.proto.graph.value_info.add(name="a").type.sequence_type.elem_type.tensor_type.elem_type = 1
    edits = [SetElementType(MAIN, name, TensorProto.FLOAT16) for name in ("x", "a", "b", "y", "w")]
    changed = apply_edits(model, edits).proto
    assert changed_fields(model.proto, changed) == ["graph.value_info[b].type.tensor_type.elem_type"]
    assert changed.graph.value_info[0].type.tensor_type.elem_type == TensorProto.FLOAT16


def test_a_constant_of_a_function_is_a_node_and_one_of_a_graph_an_initializer() -> None:
    model = Model(rich_model())
    tensor, other = (make_tensor(name, np.zeros(3), TensorProto.FLOAT) for name in ("new", "other"))
    changed = apply_edits(model, [AddInitializer(BLOCK, tensor), AddInitializer(BLOCK, other)])
    function = next(function for function in changed.proto.functions if function.name == "Block")
    assert [(node.op_type, list(node.output)) for node in function.node[:2]] == [
        ("Constant", ["new"]),
        ("Constant", ["other"]),
    ]
    assert helper.get_node_attr_value(function.node[0], "value") == tensor
    assert list(apply_edits(model, [AddInitializer(MAIN, tensor)]).proto.graph.initializer)[-1] == tensor


def test_types_of_a_function_go_with_the_tensors_that_vanish() -> None:
    model = Model(rich_model())
    function = next(function for function in model.proto.functions if function.name == "Block")
    function.value_info.append(helper.make_tensor_value_info("product", TensorProto.FLOAT, None))
    function.value_info.append(helper.make_tensor_value_info("sum", TensorProto.FLOAT, None))
    edits = [RenameOutput(BLOCK, ("product",), 0, "p"), SetInput(BLOCK, ("sum",), 0, "p")]
    after = apply_edits(model, edits).proto
    gone = [change for change in changed_fields(model.proto, after) if "value_info" in change]
    assert gone == ["-functions[com.example.blocks::Block:].value_info[product]"]


def test_an_attribute_is_set_changed_and_deleted() -> None:
    model = text_model("g (float[2,3] x) => (float[2,3] y) { y = Softmax<axis = 1>(x) }")
    changed = apply_edits(model, [SetAttribute(MAIN, ("y",), "axis", 0)])
    assert changed_fields(model.proto, changed.proto) == ["graph.node[y].attribute[axis].i"]
    gone = apply_edits(model, [SetAttribute(MAIN, ("y",), "axis", None)])
    assert changed_fields(model.proto, gone.proto) == ["-graph.node[y].attribute[axis]"]
    assert changed_fields(model.proto, apply_edits(gone, [SetAttribute(MAIN, ("y",), "axis", 1)]).proto) == []
    assert changed_fields(gone.proto, apply_edits(gone, [SetAttribute(MAIN, ("y",), "other", None)]).proto) == []


def test_inputs_can_be_appended_and_taken_away() -> None:
    model = text_model("g (float[4] x) => (float[4] y) <float lo = {0.0}, float hi = {1.0}> { y = Clip(x, lo) }")
    longer = apply_edits(model, [SetInput(MAIN, ("y",), 2, "hi")])
    assert list(longer.proto.graph.node[0].input) == ["x", "lo", "hi"]
    hole = apply_edits(longer, [SetInput(MAIN, ("y",), 1, "")])
    assert list(hole.proto.graph.node[0].input) == ["x", "", "hi"]
    assert list(apply_edits(hole, [SetInput(MAIN, ("y",), 2, "")]).proto.graph.node[0].input) == ["x"]


def test_a_node_gives_its_output_name_to_another() -> None:
    changed = apply_edits(text_model(CHAIN), [RemoveNode(MAIN, ("y",)), RenameOutput(MAIN, ("b",), 0, "y")])
    assert [(node.op_type, *node.output) for node in changed.proto.graph.node] == [("Relu", "a"), ("Mul", "y")]


def test_two_nodes_swap_their_output_names() -> None:
    edits = [RenameOutput(MAIN, ("a",), 0, "b"), RenameOutput(MAIN, ("b",), 0, "a"), SetInput(MAIN, ("b",), 0, "b")]
    assert outputs_in_order(apply_edits(text_model(CHAIN), edits)) == ["b", "a", "y"]


def test_an_initializer_goes_with_its_graph_input_and_annotations() -> None:
    model = text_model(CHAIN)
    graph = model.proto.graph
    graph.input.append(helper.make_tensor_value_info("w", TensorProto.FLOAT, [4]))
    graph.value_info.append(helper.make_tensor_value_info("w", TensorProto.FLOAT, [4]))
    graph.quantization_annotation.add(tensor_name="w")
    graph.quantization_annotation.add(tensor_name="a")
    edits = [RemoveInitializer(MAIN, "w"), SetInput(MAIN, ("b",), 1, "a")]
    assert changed_fields(model.proto, apply_edits(model, edits).proto) == [
        "-graph.initializer[w]",
        "-graph.input[w]",
        "-graph.quantization_annotation[w]",
        "-graph.value_info[w]",
        "graph.node[b].input",
    ]


def test_absent_inputs_at_the_end_stay_where_inputs_are_not_edited() -> None:
    model = text_model(CHAIN)
    model.proto.graph.node[0].input.append("")
    changed = apply_edits(model, [SetNodeName(MAIN, ("a",), "first")]).proto
    assert list(changed.graph.node[0].input) == ["x", ""]


def test_an_initializer_is_replaced_under_its_name_and_keeps_the_type_of_the_tensor() -> None:
    model = text_model(CHAIN)
    model.proto.graph.value_info.append(helper.make_tensor_value_info("w", TensorProto.FLOAT, [4]))
    new = make_tensor("w", np.zeros(4), TensorProto.FLOAT)
    changed = apply_edits(model, [RemoveInitializer(MAIN, "w"), AddInitializer(MAIN, new)]).proto
    assert list(changed.graph.initializer) == [new]
    assert changed.graph.value_info == model.proto.graph.value_info


def test_attributes_that_graphsurgeon_cannot_read_stay() -> None:
    model = text_model(CHAIN)
    node = model.proto.graph.node[1]
    node.attribute.add(name="bytes", type=onnx.AttributeProto.STRING, s=b"\xff\xfe")
    node.attribute.add(name="type", type=onnx.AttributeProto.TYPE_PROTO)
    node.attribute.add(name="graphs", type=onnx.AttributeProto.GRAPHS).graphs.add(name="inside")
    edits = [SetInput(MAIN, ("b",), 0, "x"), SetNodeName(MAIN, ("b",), "named")]
    changed = changed_fields(model.proto, apply_edits(model, edits).proto)
    assert changed == ["+graph.node[b].name", "graph.node[b].input"]


# Places of new nodes: after what they read and right before their first reader; all others keep theirs.


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
