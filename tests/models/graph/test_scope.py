"""Names of scopes, and the walk over all of them, against a search of the protobuf message."""

import onnx
import pytest
from google.protobuf.message import Message
from onnx import AttributeProto, helper
from support.rich_model import rich_model
from support.small import conv_model

from qdqtool.models.graph.scope import MAIN, body_path, display, function_path, node_bodies, walk


def graphs_in(message):
    """Every GraphProto inside a message at any depth, itself included, found by protobuf's descriptors."""
    if isinstance(message, onnx.GraphProto):
        yield message
    for descriptor, value in message.ListFields():
        if descriptor.message_type is None:
            continue
        for each in [value] if isinstance(value, Message) else value:
            yield from graphs_in(each)


def owner(output, **bodies):
    """A node with these bodies, in this order."""
    attributes = [helper.make_attribute(name, body) for name, body in bodies.items()]
    return onnx.NodeProto(op_type="If", output=[output], attribute=attributes)


def graph(name, *nodes):
    return onnx.GraphProto(name=name, node=nodes)


def test_every_scope_is_visited_once():
    proto = rich_model()
    visited = [container for _, container in walk(proto)]
    expected = [*graphs_in(proto.graph), *proto.functions, *(g for f in proto.functions for g in graphs_in(f))]
    assert len(visited) == len(expected) > 5
    assert all(any(container is other or container == other for other in expected) for container in visited)
    assert len({path for path, _ in walk(proto)}) == len(visited)


def test_owners_come_before_their_bodies_bodies_in_order_and_functions_last():
    inner = owner("deep", then_branch=graph("a"), else_branch=graph("b"))
    outer = owner("out", body=graph("body", inner))
    proto = onnx.ModelProto(graph=graph("g", outer, owner("z", then_branch=graph("e"))))
    proto.functions.add(domain="my", name="F").node.append(outer)
    assert [path for path, _ in walk(proto)] == [
        (),
        ("out.body",),
        ("out.body", "deep.then_branch"),
        ("out.body", "deep.else_branch"),
        ("z.then_branch",),
        ("my::F",),
        ("my::F", "out.body"),
        ("my::F", "out.body", "deep.then_branch"),
        ("my::F", "out.body", "deep.else_branch"),
    ]


def test_a_model_without_bodies_is_its_main_graph():
    proto = conv_model()
    assert [(path, container.name) for path, container in walk(proto)] == [(MAIN, "graph")]


@pytest.mark.parametrize(
    ("outputs", "segment"), [(["y", "z"], "y.body"), (["", "z"], "z.body"), ([], "Loop.body"), ([""], "Loop.body")]
)
def test_a_body_is_named_by_the_first_output_of_its_node_or_else_its_operator(outputs, segment):
    node = onnx.NodeProto(op_type="Loop", name="ignored", output=outputs)
    assert body_path(("outer",), node, "body") == ("outer", segment)


def test_overloads_of_a_function_have_scopes_of_their_own():
    functions = [onnx.FunctionProto(domain="my", name="F", overload=overload) for overload in ("", "int8")]
    assert [function_path(function) for function in functions] == [("my::F",), ("my::F:int8",)]


def test_paths_are_shown_with_slashes_and_the_main_graph_as_nothing():
    assert [display(path) for path in (MAIN, ("my::F", "y.body"))] == ["", "my::F/y.body"]


def test_graphs_in_a_list_have_an_index():
    node = onnx.NodeProto(op_type="Switch")
    node.attribute.add(name="cases", type=AttributeProto.GRAPHS).graphs.extend([graph("a"), graph("b")])
    node.attribute.append(helper.make_attribute("body", graph("c")))
    node.attribute.append(helper.make_attribute("axis", 1))
    assert [(name, body.name) for name, body in node_bodies(node)] == [
        ("cases[0]", "a"),
        ("cases[1]", "b"),
        ("body", "c"),
    ]
