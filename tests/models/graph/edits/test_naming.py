"""Free names for tensors and nodes, and renamed tensors of a graph."""

import numpy as np
import onnx
from hypothesis import given, settings
from hypothesis import strategies as st
from onnx import TensorProto, helper
from support.rawdiff import changed_fields
from support.rich_model import rich_feeds, rich_model
from support.small import run

from qdqtool.models.graph.edits.naming import Namer, rename_in_graph
from qdqtool.models.graph.index.view import GraphView
from qdqtool.models.graph.model import Model
from qdqtool.models.graph.scope import walk

TEXT = """<ir_version: 8, opset_import: ["": 17]>
g (float[4] x, bool c) => (float[4] y) <float[4] w = {1,2,3,4}> {
  [first] a = Relu(x)
  [second] y = If(c) <then_branch = t () => (float[4] p) { [inner] p = Mul(a, lost) },
                      else_branch = e () => (float[4] q) <float[4] v = {1,2,3,4}> { q = Add(a, v) }>
}"""


def namer() -> Namer:
    return Namer(GraphView(Model(onnx.parser.parse_model(TEXT))))


def test_a_free_name_is_given_as_it_is() -> None:
    assert namer().tensor("a_scale") == "a_scale"
    assert namer().node("a_QuantizeLinear") == "a_QuantizeLinear"


def test_taken_names_of_every_kind_and_scope_get_a_number() -> None:
    fresh = namer()
    taken = ["x", "c", "a", "y", "w", "p", "q", "v", "lost"]
    assert [fresh.tensor(name) for name in taken] == [f"{name}_1" for name in taken]
    assert [fresh.node(name) for name in ("first", "second", "inner")] == ["first_1", "second_1", "inner_1"]


def test_a_name_is_given_once() -> None:
    fresh = namer()
    assert [fresh.tensor("s") for _ in range(3)] == ["s", "s_1", "s_2"]
    assert [fresh.tensor(name) for name in ("s_3", "s", "s_1")] == ["s_3", "s_4", "s_1_1"]


def test_tensors_and_nodes_have_names_of_their_own() -> None:
    fresh = namer()
    assert fresh.node("a") == "a"
    assert fresh.tensor("first") == "first"


def test_nothing_is_ever_named_by_the_empty_string() -> None:
    assert (namer().tensor(""), namer().node("")) == ("_1", "_1")


def test_functions_and_sparse_initializers_count() -> None:
    model = rich_model(sparse=True)
    fresh = Namer(GraphView(Model(model)))
    for _, container in walk(model):
        for node in container.node:
            assert all(fresh.tensor(name) != name for name in node.output)
    assert fresh.tensor("w_sparse") == "w_sparse_1"
    assert fresh.node("leaky") == "leaky_1"


# Renamed tensors: the graph computes the same, and the old names bring the old bytes back.


GRAPH = """g (float[4] x, bool c) => (float[4] y) <float[4] w = {1,2,3,4}, float[4] v> {
  a = Relu(x)
  v = Mul(a, w)
  y = If(c) <then_branch = t () => (float[4] p) { a = Abs(x)  p = Add(a, w) },
             else_branch = e () => (float[4] q) <float[4] w = {5,6,7,8}> { q = Add(a, w) }>
}"""


def parsed():
    return onnx.parser.parse_graph(GRAPH)


def branch(graph, name):
    return helper.get_node_attr_value(graph.node[-1], name)


def test_a_name_that_a_body_defines_itself_keeps_its_meaning_there():
    graph = parsed()
    rename_in_graph(graph, {"a": "A", "w": "W", "x": "X"})
    then_body, else_body = branch(graph, "then_branch"), branch(graph, "else_branch")
    assert [list(node.input) for node in then_body.node] == [["X"], ["a", "W"]]
    assert list(then_body.node[0].output) == ["a"]
    assert list(else_body.node[0].input) == ["A", "w"]
    assert else_body.initializer[0].name == "w"
    assert [list(node.input) for node in graph.node] == [["X"], ["A", "W"], ["c"]]


def test_every_description_of_a_tensor_gets_its_new_name():
    graph = parsed()
    graph.value_info.append(helper.make_tensor_value_info("a", TensorProto.FLOAT, [4]))
    annotation = graph.quantization_annotation.add(tensor_name="a")
    annotation.quant_parameter_tensor_names.add(key="SCALE_TENSOR", value="w")
    rename_in_graph(graph, {"a": "A", "w": "W", "y": "Y", "c": "C"})
    assert [value.name for value in (*graph.input, *graph.output)] == ["x", "C", "Y"]
    assert graph.initializer[0].name == "W"
    assert graph.value_info[-1].name == "A"
    assert annotation.tensor_name == "A"
    assert annotation.quant_parameter_tensor_names[0].value == "W"


def test_an_absent_input_stays_absent_and_no_names_change_nothing():
    graph = parsed()
    graph.node[0].input.append("")
    before = graph.SerializeToString()
    rename_in_graph(graph, {})
    assert graph.SerializeToString() == before
    rename_in_graph(graph, {"x": "X"})
    assert list(graph.node[0].input) == ["X", ""]


def names_of_main(proto):
    inner = {output for path, scope in walk(proto) if path for node in scope.node for output in node.output}
    made = [output for node in proto.graph.node for output in node.output if output]
    return sorted({*made, *(tensor.name for tensor in proto.graph.initializer)} - inner)


@settings(max_examples=40)
@given(st.sets(st.sampled_from(names_of_main(rich_model()))))
def test_every_mention_is_renamed_and_the_old_names_bring_the_old_bytes_back(chosen):
    before = rich_model()
    del before.training_info[:]
    outputs = [value.name for value in before.graph.output]
    there = {name: f"{name}/renamed" for name in chosen}
    after = onnx.ModelProto()
    after.CopyFrom(before)
    rename_in_graph(after.graph, there)
    assert [value.name for value in after.graph.output] == [there.get(name, name) for name in outputs]
    assert not chosen & {name for node in after.graph.node for name in (*node.input, *node.output)}
    rename_in_graph(after.graph, {new: old for old, new in there.items()})
    assert changed_fields(before, after) == []


def test_a_renamed_rich_model_runs():
    before = rich_model()
    del before.training_info[:]
    after = onnx.ModelProto()
    after.CopyFrom(before)
    rename_in_graph(after.graph, {name: f"{name}/renamed" for name in names_of_main(before)})
    for flag in (True, False):
        pairs = zip(run(before, rich_feeds(flag=flag)), run(after, rich_feeds(flag=flag)), strict=True)
        assert all(np.array_equal(one, other) for one, other in pairs)
