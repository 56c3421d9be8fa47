"""The stand-in of a graph is the graph itself under other names, without large constants."""

from collections.abc import Iterator, Mapping
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper, parser, printer

from qdqtool.errors import ModelError
from qdqtool.models.graph.index.view import GraphView
from qdqtool.models.graph.io.load import load_model
from qdqtool.models.graph.io.tensors import pending_tensor
from qdqtool.models.graph.model import Model
from qdqtool.models.payload import Payload
from qdqtool.models.transforms.converter_faults import ConverterInput, encode

HEAD = '<ir_version: 10, opset_import: ["": 21, "mine": 1]>'
NESTED = """g (float[2] x, bool c) => (float[2] y, float[2] given) <float[2] w = {1, 2}, float[2] given = {3, 4}> {
    a = Add (x, w)
    b = If (c) <then_branch = t () => (float[2] a_then) { a_then = Mul (a, w) },
                else_branch = e () => (float[2] a_else) {
                    k = If (c) <then_branch = t () => (float[2] r) { r = Neg (x) },
                                else_branch = e () => (float[2] r) { r = Mul (a, given) }>
                    a_else = Relu (k)
                }>
    d = mine.Loop <body = body () => (float[2] r) { r = Neg (b) }> (b)
    s, none = Split <axis = 0, num_outputs = 2> (d)
    y = Clip (b, , s)
}"""


def stand_in(model: onnx.ModelProto | Model, path: tuple[object, ...] = ()) -> ConverterInput:
    view = GraphView(model if isinstance(model, Model) else Model(model))
    (scope,) = [scope for scope in view.scopes if tuple(scope.path) == path]
    return encode(view, scope)


def renamed(graph: onnx.GraphProto, names: Mapping[str, str]) -> onnx.GraphProto:
    """The graph with the real names, in its bodies too."""
    real = {"": "", **names}
    copy = onnx.GraphProto()
    copy.CopyFrom(graph)
    for each in (*copy.input, *copy.output, *copy.value_info, *copy.initializer):
        each.name = real[each.name]
    for node in copy.node:
        node.input[:] = [real[name] for name in node.input]
        node.output[:] = [real[name] for name in node.output]
        for attribute in node.attribute:
            if attribute.type == onnx.AttributeProto.GRAPH:
                attribute.g.CopyFrom(renamed(attribute.g, names))
    return copy


def text(prepared: ConverterInput) -> str:
    return str(printer.to_text(renamed(prepared.graph, prepared.names)))


def all_names(graph: onnx.GraphProto) -> Iterator[str]:
    """Every name that a scope gives, once for each time."""
    given = {each.name for each in (*graph.input, *graph.initializer)}
    yield from given
    for node in graph.node:
        yield from filter(None, node.output)
        for attribute in node.attribute:
            if attribute.type == onnx.AttributeProto.GRAPH:
                yield from all_names(attribute.g)


def test_a_graph_and_its_bodies_are_the_same_under_other_names() -> None:
    model = parser.parse_model(HEAD + NESTED)
    model.graph.value_info.append(helper.make_tensor_value_info("a", TensorProto.FLOAT, (2,)))
    expected = onnx.GraphProto()
    expected.CopyFrom(model.graph)
    del expected.node[2].attribute[:]  # Bodies of nodes of other domains are converted by themselves.
    model.graph.value_info.append(helper.make_tensor_value_info("no_longer_there", TensorProto.FLOAT, (2,)))
    prepared = stand_in(model)
    assert text(prepared) == printer.to_text(expected)
    names = list(all_names(prepared.graph))
    assert len(names) == len(set(names))
    assert set(names).isdisjoint({"x", "y", "a", "r"})
    for outputs, node in prepared.nodes.items():
        assert [prepared.names[name] for name in outputs] == list(node.proto.output)
    assert len(prepared.nodes) == 10


@pytest.mark.parametrize(("given", "name"), [("", "body"), ("mine", "mine")])
def test_a_graph_has_a_name(given: str, name: str) -> None:
    model = parser.parse_model(HEAD + NESTED)
    model.graph.name = given
    assert stand_in(model).graph.name == name


def test_a_function_has_inputs_and_outputs_without_types() -> None:
    model = parser.parse_model(
        f"""{HEAD} g (float[2] x) => (float[2] y) {{ y = mine.f (x, x) }}
        <domain: "mine", opset_import: ["": 21]> f (p, q) => (r, p) {{ r = Add (p, q) }}"""
    )
    function = next(scope.path for scope in GraphView(Model(model)).scopes if scope.in_function)
    prepared = stand_in(model, function)
    expected = onnx.GraphProto(
        name="main",
        input=[onnx.ValueInfoProto(name="p"), onnx.ValueInfoProto(name="q")],
        output=[onnx.ValueInfoProto(name="r"), onnx.ValueInfoProto(name="p")],
        node=[helper.make_node("Add", ["p", "q"], ["r"])],
    )
    assert text(prepared) == printer.to_text(expected)


def test_what_a_body_reads_from_outside_is_an_input() -> None:
    model = parser.parse_model(HEAD + NESTED.replace("r = Neg (b) }> (b)", "n = Neg (b) r = Add (n, b) }> (b)"))
    path = next(scope.path for scope in GraphView(Model(model)).scopes if scope.owner and scope.owner.domain)
    prepared = stand_in(model, path)
    body = renamed(prepared.graph, prepared.names)
    assert [value.name for value in body.input] == ["b"]
    assert [list(node.input) for node in body.node] == [["b"], ["n", "b"]]


def weighted(tensor: onnx.TensorProto) -> onnx.ModelProto:
    model = parser.parse_model(f"{HEAD} g (float[n] x) => (float[n] y) {{ y = Add (x, w) }}")
    model.graph.initializer.append(tensor)
    return model


@pytest.mark.parametrize(("count", "kept"), [(1, True), (256, True), (257, False)])
@pytest.mark.parametrize("outside", [False, True])
def test_constants_of_a_kibibyte_keep_their_data(count: int, kept: bool, outside: bool, tmp_path: Path) -> None:
    array = np.arange(count, dtype=np.float32)
    model = weighted(numpy_helper.from_array(array, "w"))
    path = tmp_path / "m.onnx"
    if outside:
        onnx.save(model, path, save_as_external_data=True, location="m.data", size_threshold=0)
    (tensor,) = stand_in(load_model(path) if outside else model).graph.initializer
    assert (tensor.data_type, list(tensor.dims)) == (TensorProto.FLOAT, [count])
    if kept:
        assert np.array_equal(numpy_helper.to_array(tensor), array)
    else:
        assert not tensor.raw_data
        assert {entry.key: entry.value for entry in tensor.external_data} == {"location": "left-out"}
        assert tensor.data_location == TensorProto.EXTERNAL


def test_a_kibibyte_is_the_limit_to_the_byte() -> None:
    (tensor,) = stand_in(weighted(numpy_helper.from_array(np.zeros(1025, np.uint8), "w"))).graph.initializer
    assert tensor.data_location == TensorProto.EXTERNAL


def test_strings_keep_their_data() -> None:
    (tensor,) = stand_in(weighted(helper.make_tensor("w", TensorProto.STRING, (2,), ["a", "b"]))).graph.initializer
    assert list(tensor.string_data) == [b"a", b"b"]


def test_data_that_is_made_at_the_end_is_left_out() -> None:
    model = Model(weighted(onnx.TensorProto()))
    tensor = pending_tensor(model, "w", (1,), TensorProto.FLOAT, Payload(4, lambda: b"\0" * 4))
    model.proto.graph.initializer[0].CopyFrom(tensor)
    (made,) = stand_in(model).graph.initializer
    assert {entry.key: entry.value for entry in made.external_data} == {"location": "left-out"}


@pytest.mark.parametrize(
    ("nodes", "message"),
    [
        ("y = Neg (x) y = Abs (x)", "the main graph defines tensor 'y' twice"),
        ("x = Neg (w) y = Abs (x)", "the main graph defines tensor 'x' twice"),
        ("w = Neg (x) y = Abs (w)", "the main graph defines tensor 'w' twice"),
        ("y = Add (x, nothing)", "the main graph reads tensor 'nothing', which nothing defines"),
        ("y = Neg (x) y = Abs (x) y = Exp (x)", "the main graph defines tensor 'y' twice"),
    ],
)
def test_every_tensor_is_defined_once(nodes: str, message: str) -> None:
    model = parser.parse_model(f"{HEAD} g (float[2] x) => (float[2] y) <float[2] w = {{1, 2}}> {{ {nodes} }}")
    with pytest.raises(ModelError) as caught:
        stand_in(model)
    assert str(caught.value) == message


def test_a_body_says_where_it_stands() -> None:
    model = parser.parse_model(HEAD + NESTED.replace("a_then = Mul (a, w)", "a_then = Mul (a, nothing)"))
    with pytest.raises(ModelError, match=r"^.*then_branch.* reads tensor 'nothing', which nothing defines") as caught:
        stand_in(model)
    assert not str(caught.value).startswith("the main graph")


def test_an_input_may_have_a_default_and_outputs_may_be_absent() -> None:
    model = parser.parse_model(f"{HEAD} g (float[2] w) => (float[2] y) <float[2] w = {{1, 2}}> {{ y = Neg (w) }}")
    model.graph.node.extend(
        [helper.make_node("Dropout", ["w"], ["", ""]), helper.make_node("Dropout", ["y"], ["", ""])]
    )
    prepared = stand_in(model)
    assert [list(node.output) for node in renamed(prepared.graph, prepared.names).node] == [["y"], ["", ""], ["", ""]]
