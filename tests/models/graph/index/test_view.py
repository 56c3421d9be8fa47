"""The index of a graph: producers and uses by ONNX's scoping, against a plain search and against onnx-ir."""

from collections import Counter

import onnx
import onnx_ir
import pytest
from onnx import helper
from onnx.inliner import inline_local_functions
from support.qdq import LOOP_AND_BRANCHES, text_model
from support.rich_model import rich_model
from support.small import conv_model

from qdqtool.models.graph.index.view import GraphView
from qdqtool.models.graph.model import Model
from qdqtool.models.graph.scope import MAIN, walk

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


FUNCTIONS = """
<ir_version: 10, opset_import: ["": 21, "my": 1]>
g (float[2,3] x) => (float[2,3] y, float[2,3] z) { y = my.Outer <by = 1> (x)  z = my.Outer <by = 0> (x) }
<domain: "my", opset_import: ["": 21, "my": 1]>
Outer <by> (x) => (y) { a = my.Inner <axis: int = @by> (x)  y = my.Inner (a) }
<domain: "my", opset_import: ["": 21]>
Inner <axis: int = -1, keep> (x) => (y) {
  [given] s = Softmax <axis: int = @axis> (x)
  [absent] m = ReduceMax <keepdims: int = @keep> (s)
  c = Constant <value = bool {1}> ()
  y = If (c) <then_branch = t () => (p) { [inside] p = LogSoftmax <axis: int = @axis> (s) },
              else_branch = e () => (q) { q = Identity (s) }>
}
<domain: "my", opset_import: ["": 21]>
Idle <axis: int = 2, other> (x) => (y) { [idle] y = Softmax <axis: int = @axis, unknown: int = @other> (x) }
<domain: "my", opset_import: ["": 21, "my": 1]>
Endless <axis> (x) => (y) { [endless] y = my.Endless <axis: int = @axis> (x) }
"""


def test_an_attribute_of_a_function_has_the_value_of_the_first_call():
    model = text_model(FUNCTIONS)
    nodes = {node.proto.name: node for node in GraphView(model).nodes()}
    sound = onnx.ModelProto()
    sound.CopyFrom(model.proto)
    del sound.functions[-1]
    inlined = inline_local_functions(sound)
    first = next(node for node in inlined.graph.node if node.op_type == "Softmax")

    assert nodes["given"].attribute("axis") == first.attribute[0].i == 1
    assert nodes["inside"].attribute("axis") == 1
    # The call leaves it out, and the function has no value for it.
    assert nodes["absent"].attribute("keepdims", 7) == 7
    # Nothing calls these two, or only they themselves.
    assert nodes["idle"].attribute("axis", 7) == 2
    assert nodes["idle"].attribute("unknown", 7) == 7
    assert nodes["endless"].attribute("axis", 7) == 7


def test_a_call_that_leaves_an_attribute_out_gets_that_of_the_function():
    model = text_model(FUNCTIONS)
    del model.proto.functions[0].node[0].attribute[:]
    nodes = {node.proto.name: node for node in GraphView(model).nodes()}

    assert nodes["given"].attribute("axis", 7) == -1


def test_a_reference_outside_of_a_function_stands_for_nothing():
    model = text_model('<ir_version: 8, opset_import: ["": 17]> g (float[2] x) => (float[2] y) { y = Softmax (x) }')
    model.proto.graph.node[0].attribute.append(onnx.AttributeProto(name="axis", ref_attr_name="a", type=2))

    assert next(GraphView(model).nodes()).attribute("axis", 7) == 7


def test_the_calls_of_a_function_are_in_the_order_of_the_walk():
    view = GraphView(text_model(FUNCTIONS))

    calls = {scope.path: [node.key[0] for node in scope.calls] for scope in view.scopes if scope.calls}
    assert calls == {("my::Outer",): ["y", "z"], ("my::Inner",): ["a", "y"], ("my::Endless",): ["y"]}


@pytest.mark.parametrize(("functions", "value"), [(1, 3), (2, 3), (63, 3), (64, 3), (65, 7)])
def test_attributes_are_followed_through_64_functions(functions: int, value: int):
    text = """<ir_version: 10, opset_import: ["": 21, "my": 1]>
    g (float[2] x) => (float[2] y) { y = my.F1 <a = 3> (x) }
    """
    for number in range(1, functions + 1):
        operator = f"my.F{number + 1} <a: int = @a>" if number < functions else "Softmax <axis: int = @a>"
        text += f'<domain: "my", opset_import: ["": 21, "my": 1]> F{number} <a> (x) => (y) {{ y = {operator} (x) }}\n'
    last = list(GraphView(text_model(text)).nodes())[-1]

    assert (last.op_type, last.attribute("axis", 7)) == ("Softmax", value)
