"""What dies with the uses that edits take away, against a plain search for what nothing reads."""

import numpy as np
import onnx
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from onnx import TensorProto, helper, numpy_helper
from support.edited import BODIES, CHAIN, text_model
from support.rich_model import rich_model

from qdqtool.models.graph.edits.edit import Edit, RemoveInitializer, SetInput
from qdqtool.models.graph.edits.surgeon import apply_edits
from qdqtool.models.graph.edits.unused import DeadCode, without_unused
from qdqtool.models.graph.index.view import GraphView
from qdqtool.models.graph.model import Model
from qdqtool.models.graph.scope import MAIN


def spelled(edits: list[Edit]) -> set[str]:
    """The names that are removed: of a node its outputs."""
    return {edit.name if isinstance(edit, RemoveInitializer) else ",".join(edit.node) for edit in edits}


def dies(text: str, *uses: tuple[str, int], mark: str = "drop") -> set[str]:
    """What dies when nodes, named by their output, lose a use, or go."""
    view = GraphView(text_model(text))
    dead = DeadCode(view)
    for output, index in uses:
        node = next(node for node in view.nodes() if output in node.key)
        if mark == "drop":
            dead.drop_use(node, index)
        else:
            dead.drop_node(node)
    return spelled(dead.edits())


@st.composite
def networks(draw):
    """Sums of earlier tensors and constants, some of which nothing reads, and a use that is to go."""
    names, nodes = ["x", "w0", "w1"], []
    for index in range(draw(st.integers(1, 8))):
        inputs = draw(st.lists(st.sampled_from(names), min_size=1, max_size=3))
        nodes.append(helper.make_node("Sum", inputs, [f"n{index}"]))
        names.append(f"n{index}")
    made = [name for name in names if name[0] == "n"]
    outputs = draw(st.sets(st.sampled_from(made), min_size=1))
    weights = [numpy_helper.from_array(np.zeros(4, np.float32), name) for name in ("w0", "w1")]
    values = [helper.make_tensor_value_info(name, TensorProto.FLOAT, [4]) for name in ("x", *sorted(outputs))]
    graph = helper.make_graph(nodes, "g", values[:1], values[1:], weights)
    reader = draw(st.sampled_from(nodes))
    return helper.make_model(graph), reader.output[0], draw(st.integers(0, len(reader.input) - 1))


def readers(graph):
    return {name for node in graph.node for name in node.input} | {value.name for value in graph.output}


def without_what_lost_its_readers(before, after):
    """Names of nodes and constants that have no reader any more, taken out one after the other."""
    had = readers(before.graph)
    removed = set()
    graph = onnx.GraphProto()
    graph.CopyFrom(after.graph)
    while True:
        read = readers(graph)
        nodes = [node for node in graph.node if node.output[0] in had - read]
        tensors = [tensor for tensor in graph.initializer if tensor.name in had - read]
        if not nodes and not tensors:
            return removed
        for item in nodes:
            removed.add(item.output[0])
            graph.node.remove(item)
        for item in tensors:
            removed.add(item.name)
            graph.initializer.remove(item)


def moved(proto, output, index):
    """The model in which one input of a node is x, and the place of that input."""
    after = onnx.ModelProto()
    after.CopyFrom(proto)
    next(node for node in after.graph.node if node.output[0] == output).input[index] = "x"
    return after


@given(networks())
def test_all_that_only_the_lost_use_kept_alive_dies_and_nothing_else(drawn):
    proto, output, index = drawn
    view = GraphView(Model(proto))
    dead = DeadCode(view)
    node = next(node for node in view.nodes() if node.key == (output,))
    assume(node.proto.input[index] != "x")
    dead.drop_use(node, index)
    edits = dead.edits()
    assert spelled(edits) == without_what_lost_its_readers(proto, moved(proto, output, index))
    apply_edits(Model(proto), [*edits, SetInput(MAIN, (output,), index, "x")])  # fits


@given(networks())
def test_what_only_the_model_before_read_is_taken_out_of_the_one_after(drawn):
    proto, output, index = drawn
    after = moved(proto, output, index)
    done = without_unused(GraphView(Model(proto)), Model(after))
    assert set(done.report) == without_what_lost_its_readers(proto, after)
    left = {node.output[0] for node in done.model.proto.graph.node}
    assert left == {node.output[0] for node in after.graph.node} - set(done.report)


def test_a_use_among_several_leaves_the_tensor_alive():
    assert dies(CHAIN, ("y", 0)) == set()
    assert dies(CHAIN, ("y", 1)) == {"b", "w"}
    assert dies(CHAIN, ("y", 1), ("y", 0)) == {"a", "b", "w"}


def test_a_node_that_goes_takes_what_it_read_in_its_bodies_too():
    assert dies(BODIES, ("y", 0), mark="node") == {"a", "inner", "w"}
    assert dies(BODIES, ("p", 0), mark="node") == {"inner", "a", "w"}


def test_a_tensor_that_lost_its_readers_before_is_looked_at_when_it_is_named():
    model = text_model("g (float[4] x) => (float[4] y) { a = Relu(x)  b = Abs(a)  y = Neg(x) }")
    view = GraphView(model)
    assert DeadCode(view).edits() == []
    dead = DeadCode(view)
    dead.suspect(view.main.values["b"])
    assert spelled(dead.edits()) == {"a", "b"}


def test_a_node_stays_while_one_of_its_outputs_is_read():
    text = "g (float[4] x) => (float[2] y) { p, q = Split<num_outputs = 2>(x)  r = Relu(q)  y = Relu(p) }"
    assert dies(text, ("r", 0)) == set()
    assert dies(text, ("r", 0), ("y", 0)) == {"p,q"}


def test_what_a_body_returns_from_outside_is_no_dead_code():
    text = (
        "g (float[4] x, bool c) => (float[4] y) { a = Relu(x)  n = Neg(a)"
        "  y = If(c) <then_branch = t () => (float[4] a) { }, else_branch = e () => (float[4] q) { q = Abs(n) }> }"
    )
    assert dies(text, ("q", 0)) == {"n"}


def test_an_absent_input_is_no_use():
    assert dies("g (float[4] x) => (float[4] y) { y = Clip(x, , x) }", ("y", 1)) == set()


def swept(before, change):
    after = onnx.ModelProto()
    after.CopyFrom(before)
    change(after)
    return without_unused(GraphView(Model(before)), Model(after)).report


@pytest.mark.parametrize("mention", ["annotation", "training", "binding", "input"])
def test_what_something_else_than_a_node_names_stays(mention):
    proto = text_model(CHAIN).proto

    def change(after):
        after.graph.node[1].input[1] = "a"  # nothing reads w any more

    assert swept(proto, change) == ("w",)
    match mention:
        case "annotation":
            entry = proto.graph.quantization_annotation.add(tensor_name="a")
            entry.quant_parameter_tensor_names.add(key="SCALE_TENSOR", value="w")
        case "training":
            proto.training_info.add().algorithm.node.add(op_type="Relu", input=["w"])
        case "binding":
            proto.training_info.add().update_binding.add(key="w", value="new_w")
        case "input":
            proto.graph.input.append(helper.make_tensor_value_info("w", TensorProto.FLOAT, [4]))
    assert swept(proto, change) == ()


def test_a_node_with_bodies_stays_since_they_may_do_more():
    proto = text_model(BODIES.replace("(float[4] y) <", "(float[4] z) <").replace("}> }", "}>  z = Neg(y) }")).proto

    def change(after):
        after.graph.node[-1].input[0] = "x"

    assert swept(proto, change) == ()


def test_what_only_the_dead_read_goes_with_them_although_the_model_before_did_not_have_it():
    def change(after):
        after.graph.initializer.append(numpy_helper.from_array(np.zeros(4, np.float32), "new"))
        after.graph.node[1].input[1] = "new"
        after.graph.node[2].input[1] = "x"

    assert set(swept(text_model(CHAIN).proto, change)) == {"b", "w", "new"}


def test_scopes_below_are_searched_too():
    proto = text_model(BODIES).proto

    def change(after):
        body = next(attribute.g for attribute in after.graph.node[1].attribute if attribute.name == "then_branch")
        body.node[1].input[0] = "a"

    assert set(swept(proto, change)) == {"inner", "w"}


def test_in_a_model_with_everything_nothing_goes_that_was_unused_before():
    proto = rich_model()
    same = without_unused(GraphView(Model(proto)), Model(proto))
    assert same.report == ()
    assert same.model.proto is proto


def test_what_an_edit_reads_anew_stays():
    view = GraphView(
        text_model(
            """g (float[2] x) => (float[2] y)
            <float[2] a = {1, 2}, float[2] b = {3, 4}> { c = Exp(a)  d = Mul(c, b)  y = Add(x, d) }"""
        )
    )
    nodes = {node.key[0]: node for node in view.nodes()}
    for kept, expected in ((None, {"a", "b", "c", "d"}), ("b", {"a", "c", "d"}), ("c", {"b", "d"}), ("d", set())):
        dead = DeadCode(view)
        if kept:
            dead.keep(view.main.values[kept])
        dead.drop_use(nodes["y"], 1)
        assert spelled(dead.edits()) == expected
