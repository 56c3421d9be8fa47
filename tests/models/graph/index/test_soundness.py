"""What is no graph is told before anything edits or runs it; what is one, however unusual, is let pass."""

import itertools
from pathlib import Path

import onnx
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from onnx import helper
from support.rich_model import rich_model
from support.small import conv_model

from qdqtool.errors import ModelError
from qdqtool.models.graph.index.soundness import out_of_order, require_sound, unsound
from qdqtool.models.graph.index.view import GraphView
from qdqtool.models.graph.io.load import load_model
from qdqtool.models.graph.model import Model


def check(model: onnx.ModelProto) -> None:
    require_sound(GraphView(Model(model)))


def undefined(model: onnx.ModelProto) -> None:
    model.graph.node[1].input[0] = "nowhere"


def defined_twice(model: onnx.ModelProto) -> None:
    model.graph.node[2].output[0] = "r"


def input_is_made(model: onnx.ModelProto) -> None:
    model.graph.node[0].output[0] = "x"


def initializer_twice(model: onnx.ModelProto) -> None:
    model.graph.initializer.append(model.graph.initializer[0])


def cycle(model: onnx.ModelProto) -> None:
    model.graph.node[0].input[0] = "y"


def cycle_through_a_body(model: onnx.ModelProto) -> None:
    info = helper.make_empty_tensor_value_info("t")
    body = helper.make_graph([helper.make_node("Neg", ["y"], ["t"])], "b", [], [info])
    model.graph.node.append(helper.make_node("If", ["flag"], ["branched"], then_branch=body, else_branch=body))
    model.graph.input.append(helper.make_tensor_value_info("flag", onnx.TensorProto.BOOL, []))
    model.graph.node[0].input[0] = "branched"


def no_output(model: onnx.ModelProto) -> None:
    model.graph.output[0].name = "never"


@pytest.mark.parametrize(
    ("spoil", "message"),
    [
        (undefined, "tensor 'nowhere' is read by relu1 and defined nowhere"),
        (defined_twice, "tensor 'r' is defined more than once"),
        (input_is_made, "tensor 'x' is defined more than once"),
        (initializer_twice, "tensor 'w' is defined more than once"),
        (cycle, "tensor 'c' depends on itself"),
        (cycle_through_a_body, "tensor 'c' depends on itself"),
        (no_output, "tensor 'never' is an output that nothing makes"),
    ],
)
def test_each_fault_is_named(spoil, message: str) -> None:
    model = conv_model()
    spoil(model)
    with pytest.raises(ModelError) as caught:
        check(model)
    assert str(caught.value) == f"the model is not valid: {message}"


def test_order_and_old_habits_are_no_faults() -> None:
    model = conv_model(ir_version=3)
    for tensor in model.graph.initializer:
        model.graph.input.append(helper.make_tensor_value_info(tensor.name, tensor.data_type, list(tensor.dims)))
    nodes = list(model.graph.node)
    del model.graph.node[:]
    model.graph.node.extend(reversed(nodes))
    check(model)
    check(rich_model())
    check(rich_model(sparse=True))


def test_real_models_are_sound(real_model: Path) -> None:
    require_sound(GraphView(load_model(real_model)))


def test_the_body_of_a_fault_is_named() -> None:
    model = conv_model()
    info = helper.make_empty_tensor_value_info("t")
    body = helper.make_graph([helper.make_node("Neg", ["nowhere"], ["t"], name="neg")], "b", [], [info])
    model.graph.node.append(helper.make_node("If", ["flag"], ["branched"], then_branch=body, else_branch=body))
    model.graph.input.append(helper.make_tensor_value_info("flag", onnx.TensorProto.BOOL, []))
    with pytest.raises(ModelError) as caught:
        check(model)
    where = "tensor 'nowhere' in 'branched.else_branch'"  # attributes are sorted by name
    assert str(caught.value) == f"the model is not valid: {where} is read by neg and defined nowhere"


def test_inputs_of_the_same_name_are_a_fault() -> None:
    model = conv_model()
    model.graph.input.append(model.graph.input[0])
    (found,) = unsound(GraphView(Model(model)).main)
    assert (found.tensor, found.problem, found.node, found.use) == ("x", "is defined more than once", None, None)


def test_absent_inputs_and_outputs_are_no_faults() -> None:
    model = conv_model()
    model.graph.node[0].input[2] = ""
    model.graph.node[1].output.extend(["", ""])
    check(model)


@st.composite
def graphs(draw) -> onnx.ModelProto:
    """Nodes of one or two outputs in any order, that read any of them, some in a body within a body."""
    count = draw(st.integers(1, 6))
    made = [[f"t{index}", f"u{index}"][: draw(st.integers(1, 2))] for index in range(count)]
    names = st.lists(st.sampled_from(["x", *(name for outputs in made for name in outputs)]), max_size=2)
    nodes = []
    for index, outputs in enumerate(made):
        node = helper.make_node("Relu", draw(names), outputs, name=f"n{index}")
        for number, inner in enumerate(draw(st.lists(names, max_size=1))):
            deep = onnx.GraphProto(name="d", node=[helper.make_node("Neg", inner, [f"deep{index}"])])
            owner = helper.make_node("If", [], [f"owner{index}"], then_branch=deep)
            body = onnx.GraphProto(name="b", node=[owner, helper.make_node("Neg", inner[::-1], [f"inner{index}"])])
            node.attribute.append(helper.make_attribute(f"body{number}", body))
        nodes.append(node)
    inputs = [helper.make_tensor_value_info("x", 1, [1])]
    return helper.make_model(helper.make_graph(nodes, "g", inputs, []))


def reads(node: onnx.NodeProto) -> set[str]:
    bodies = (inner for attribute in node.attribute for inner in attribute.g.node)
    return set(node.input).union(*map(reads, bodies))


@settings(max_examples=60)
@given(graphs())
def test_cycles_and_nodes_out_of_order_are_those_of_a_plain_search(proto: onnx.ModelProto) -> None:
    nodes = proto.graph.node
    edges = {
        (maker, reader)
        for maker, made in enumerate(nodes)
        for reader, node in enumerate(nodes)
        if reads(node) & set(made.output)
    }
    after = set(edges)
    for middle, one, other in itertools.product(range(len(nodes)), repeat=3):
        if {(one, middle), (middle, other)} <= after:
            after.add((one, other))
    cyclic = {one for one, other in after if one == other}
    stuck = cyclic | {other for one, other in after if one in cyclic}

    scope = GraphView(Model(proto)).main
    early = list(out_of_order(scope))
    told = [(found.problem, found.node.index) for found in early]
    wanted = {(f"is read before n{maker} makes it", node) for maker, node in edges if node <= maker}
    assert sorted(told) == sorted(each for each in wanted if each[1] not in stuck)
    for found in early:
        inputs = list(found.use.node.proto.input)
        assert inputs.index(found.tensor) == found.use.index, "the first of its uses"
        assert found.tensor in reads(found.node.proto)
        maker = int(found.tensor[1:])
        assert f"n{maker} makes" in found.problem
        read = reads(found.node.proto)
        assert found.tensor == next(name for name in nodes[maker].output if name in read), "the first of its outputs"
    cycles = [(found.tensor, found.problem, found.node.index) for found in unsound(scope)]
    first = min(stuck, default=None)
    assert cycles == ([(f"t{first}", "depends on itself", first)] if stuck else [])
    if stuck:
        with pytest.raises(ModelError, match=f"tensor 't{first}' depends on itself"):
            require_sound(GraphView(Model(proto)))
    else:
        require_sound(GraphView(Model(proto)))


def test_the_tensor_of_a_cycle_is_the_first_that_has_a_name() -> None:
    graph = helper.make_graph([helper.make_node("Split", ["b"], ["", "b"])], "g", [], [])
    (found,) = unsound(GraphView(Model(helper.make_model(graph))).main)
    assert (found.tensor, found.problem) == ("b", "depends on itself")
