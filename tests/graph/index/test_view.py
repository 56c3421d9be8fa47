"""The index of a graph: producers and uses by ONNX's scoping, against a plain search and against onnx-ir."""

from collections import Counter

import onnx
import onnx_ir
import pytest
from onnx import helper
from support.qdq import LOOP_AND_BRANCHES, text_model
from support.rich_model import rich_model
from support.small import conv_model

from qdqtool.graph.index.view import GraphView
from qdqtool.graph.model import Model
from qdqtool.graph.scope import MAIN, walk

NESTED = """
<ir_version: 10, opset_import: ["": 17, "my": 1]>
g (float[4] x, bool c) => (float[4] y) <float[4] w = {1,2,3,4}> {
  [named] a = Relu (x)
  y = If (c) <
    then_branch = t () => (float[4] p) { x = Abs (a)  p = Add (x, w) },
    else_branch = e () => (float[4] q) <float[4] a = {5,6,7,8}> { q = my.F (a, nowhere) }
  >
}
<domain: "my", opset_import: ["": 13]>
F <slope> (a, w) => (b) { b = LeakyRelu <alpha: float = @slope> (a) }
"""
THEN, ELSE, FUNCTION = ("y.then_branch",), ("y.else_branch",), ("my::F",)


@pytest.fixture(scope="module")
def view() -> GraphView:
    return GraphView(text_model(NESTED))


def uses(value):
    return [(use.node.key, use.index) for use in value.uses]


def test_scopes_are_in_the_order_of_the_walk_and_found_by_their_path(view):
    for proto in (rich_model(), text_model(LOOP_AND_BRANCHES).proto):
        scopes = GraphView(Model(proto)).scopes
        assert sorted(scope.path for scope in scopes) == sorted(path for path, _ in walk(proto))
    assert [scope.path for scope in view.scopes] == [MAIN, THEN, ELSE, FUNCTION]
    assert view.main is view.scope(MAIN)
    with pytest.raises(KeyError):
        view.scope(("nowhere",))


def test_a_name_that_a_body_does_not_define_is_that_of_the_scope_around_it(view):
    main = view.main.values
    assert view.scope(THEN).resolve("a") is main["a"]
    assert view.scope(THEN).resolve("x") is not main["x"]
    assert view.scope(ELSE).resolve("a") is not main["a"]
    assert view.scope(ELSE).resolve("nowhere") is None
    assert view.scope(FUNCTION).resolve("x") is None, "a function sees its own names only"


def test_uses_are_those_of_the_scope_and_of_the_bodies_below(view):
    main = view.main.values
    assert uses(main["a"]) == [(("x",), 0)]
    assert uses(main["w"]) == [(("p",), 1)]
    assert uses(main["x"]) == [(("a",), 0)]
    assert uses(view.scope(ELSE).values["a"]) == [(("q",), 0)]
    assert uses(view.scope(FUNCTION).values["a"]) == [(("b",), 0)]


def test_tensors_know_whether_they_are_given_made_stored_or_returned(view):
    main = view.main.values
    assert (main["x"].is_input, main["x"].producer, main["x"].initializer) == (True, None, None)
    assert main["a"].producer.proto.name == "named"
    assert main["w"].initializer.name == "w"
    assert [name for name, value in main.items() if value.is_output] == ["y"]
    assert [name for name, value in main.items() if value.is_input] == ["x", "c"]
    function = view.scope(FUNCTION)
    assert (function.values["a"].is_input, function.values["b"].is_output) == (True, True)


def test_a_tensor_that_a_body_returns_from_outside_is_an_output():
    """ONNX Runtime and onnx's checker refuse such a model, TensorRT's parser takes it."""
    text = (
        "g (float[4] x, bool c) => (float[4] y) { a = Relu(x)  n = Neg(a)"
        "  y = If(c) <then_branch = t () => (float[4] a) { }, else_branch = e () => (float[4] q) { q = Abs(n) }> }"
    )
    found = GraphView(text_model(text))
    assert [name for name, value in found.main.values.items() if value.is_output] == ["a", "y"]


def test_functions_have_their_own_opset_and_bodies_that_of_the_graph_around_them(view):
    assert [scope.opset for scope in view.scopes] == [17, 17, 17, 13]
    assert [(scope.is_function, scope.in_function) for scope in view.scopes][2:] == [(False, False), (True, True)]
    nested = GraphView(Model(rich_model()))
    bodies = [scope for scope in nested.scopes if scope.parent is not None and scope.path[0].startswith("com.")]
    assert bodies
    assert all(scope.in_function and not scope.is_function for scope in bodies)


def test_the_owner_of_a_body_is_its_node(view):
    assert view.scope(THEN).owner is view.main.values["y"].producer
    assert view.scope(THEN).parent is view.main
    assert (view.main.owner, view.scope(FUNCTION).parent) == (None, None)


def test_an_independent_reader_sees_the_same_uses():
    proto = rich_model()
    model = onnx_ir.serde.deserialize_model(proto)
    expected = Counter()
    for container in (model.graph, *model.functions.values()):
        for node in onnx_ir.traversal.RecursiveGraphIterator(container):
            for index, value in enumerate(node.inputs):
                if value is not None:
                    expected[value.name, tuple(output.name for output in node.outputs), index] += 1
    found = Counter(
        (value.name, use.node.key, use.index) for value in GraphView(Model(proto)).values() for use in value.uses
    )
    assert found == expected
    assert sum(found.values()) > 30


def test_every_node_stands_at_its_place():
    proto = rich_model()
    containers = dict(walk(proto))
    for node in GraphView(Model(proto)).nodes():
        assert containers[node.scope.path].node[node.index] == node.proto


def test_the_same_name_in_two_scopes_is_told_apart(view):
    names = [value.qualified_name for value in view.values() if value.name == "a"]
    assert names == ["a", "y.else_branch/a", "my::F/a"]


def node_of(**fields):
    graph = onnx.GraphProto(node=[onnx.NodeProto(**fields)])
    return next(GraphView(Model(onnx.ModelProto(graph=graph))).nodes())


@pytest.mark.parametrize(
    ("fields", "label"),
    [
        ({"name": "n", "op_type": "Relu", "output": ["y"]}, "n"),
        ({"op_type": "Split", "output": ["", "z"]}, "Split -> z"),
        ({"op_type": "Print"}, "Print -> (no output)"),
    ],
)
def test_a_node_is_called_by_its_name_or_else_by_what_it_makes(fields, label):
    assert node_of(**fields).label == label


@pytest.mark.parametrize(("domain", "is_relu"), [("", True), ("ai.onnx", True), ("my", False)])
def test_the_default_domain_has_two_names(domain, is_relu):
    node = node_of(op_type="Relu", domain=domain)
    assert node.is_op("Abs", "Relu") is is_relu
    assert not node.is_op("Abs")


def test_inputs_and_outputs_that_are_absent_are_none(view):
    node = node_of(op_type="Clip", input=["", "low"], output=["", "z"])
    assert (node.input(0), node.input(1), node.input(2)) == (None, None, None)
    assert [node.input_name(index) for index in range(3)] == ["", "low", ""]
    assert (node.output(), node.output(1).name, node.output(2)) == (None, "z", None)
    assert view.scope(ELSE).nodes[0].output().name == "q"
    call = view.scope(ELSE).nodes[0]
    assert (call.input(0).name, call.input(1)) == ("a", None)


def test_attributes_have_their_value_or_the_default(view):
    node = GraphView(Model(conv_model())).main.nodes[0]
    assert node.attribute("pads") == [1, 1, 1, 1]
    assert (node.attribute("group", 1), node.attribute("group")) == (1, None)
    assert not node.is_parametric
    assert view.scope(FUNCTION).nodes[0].is_parametric


def test_sparse_initializers_are_tensors_of_the_graph():
    sparse = GraphView(Model(rich_model(sparse=True)))
    (stored,) = rich_model(sparse=True).graph.sparse_initializer
    value = sparse.main.values[stored.values.name]
    assert value.uses
    assert value.initializer is None


def test_an_output_that_nothing_makes_is_no_tensor():
    graph = helper.make_graph([], "g", [], [helper.make_tensor_value_info("y", 1, [1])])
    view = GraphView(Model(helper.make_model(graph)))
    assert view.main.values == {}
    assert view.main.output_names() == ["y"]
