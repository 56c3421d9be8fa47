"""What onnx's version converter would change silently is corrected or refused, at the version that changed it."""

from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper, parser, printer
from support.small import run

from qdqtool.errors import ModelError
from qdqtool.models.graph.index.view import GraphView
from qdqtool.models.graph.io.load import load_model
from qdqtool.models.graph.io.tensors import pending_tensor
from qdqtool.models.graph.model import Model
from qdqtool.models.payload import Payload
from qdqtool.models.transforms.converter_faults import ConverterInput, encode
from qdqtool.models.transforms.opset import upgrade_opset

X = np.arange(16, dtype=np.float32).reshape(1, 1, 4, 4)


def parsed(text: str, opset: int) -> onnx.ModelProto:
    return parser.parse_model(f'<ir_version: 8, opset_import: ["": {opset}, "my": 1]> {text}')


def upgraded(model: onnx.ModelProto, version: int) -> onnx.ModelProto:
    return upgrade_opset(Model(model), version).model.proto


def attributes(model: onnx.ModelProto) -> dict[str, object]:
    return {item.name: helper.get_attribute_value(item) for item in model.graph.node[-1].attribute}


def resize(op: str, *scales: float, mode: str = "nearest") -> str:
    given = ", ".join(str(float(scale)) for scale in (1, 1, *scales))
    return f"""g (float[1,1,4,4] x) => (float[1,1,a,b] y) <float[4] s = {{{given}}}> {{
        y = {op} <mode = "{mode}"> (x, s)
    }}"""


@pytest.mark.parametrize(
    ("op", "opset", "scales", "rounding"),
    [
        ("Upsample", 9, (2, 2), b"floor"),
        ("Upsample", 9, (1.7, 2.6), b"floor"),
        ("Resize", 10, (1.5, 2.5), b"floor"),
        ("Resize", 10, (1, 1), b"floor"),
        ("Resize", 10, (0.5, 0.4), b"ceil"),
        ("Resize", 10, (0.6, 1), b"ceil"),
    ],
)
@pytest.mark.parametrize("version", [11, 13])
def test_images_are_resized_as_before(op, opset, scales, rounding, version) -> None:
    before = parsed(resize(op, *scales), opset)
    after = upgraded(before, version)
    assert attributes(after)["coordinate_transformation_mode"] == b"asymmetric"
    assert attributes(after)["nearest_mode"] == rounding
    assert np.array_equal(run(before, {"x": X})[0], run(after, {"x": X})[0])


@pytest.mark.parametrize(("opset", "version"), [(9, 10), (11, 13)])
def test_versions_with_the_same_meaning_are_left(opset: int, version: int) -> None:
    text = resize("Upsample", 2, 2) if opset == 9 else resize("Resize", 2, 2).replace("(x, s)", "(x, , s)")
    assert set(attributes(upgraded(parsed(text, opset), version))) == {"mode"}


def test_linear_images_have_no_rounding() -> None:
    after = upgraded(parsed(resize("Upsample", 2, 3, mode="linear"), 9), 11)
    assert set(attributes(after)) == {"mode", "coordinate_transformation_mode"}


ROUNDING = "its scales are not constant, or they enlarge one axis and shrink another, which rounds differently"
GIVEN = "g (float[1,1,4,4] x, float[4] s) => (float[1,1,a,b] y) { y = Resize (x, s) }"
HARDMAX = "g (float[2,3] x) => (float[2,3] y) { y = Hardmax <axis = 1> (x) }"
CALLER = """g (float[2,3] x) => (float[2,3] y) { y = my.F <a = 1> (x) }
<domain: "my", opset_import: ["": 11]> F <a> (p) => (q) { q = Hardmax <axis: int = @a> (p) }"""
CALLED_RESIZE = """g (float[1,1,4,4] x, float[4] s) => (float[1,1,a,b] y) { y = my.F <m = "nearest"> (x, s) }
<domain: "my", opset_import: ["": 10]> F <m> (p, s) => (q) { q = Resize <mode: string = @m> (p, s) }"""
SCAN = """g (float[1,2,2] x) => (float[1,2,2] y) {
    y = Scan <num_scan_inputs = 1, body = b (float[2] v) => (float[2] w) { w = Neg (v) }> ("", x)
}"""
# ``axis`` is no attribute of it.
GROUPS = """g (float[1,4,2,2] x) => (float[1,4,2,2] y) <float[2] s = {1, 2}, float[2] b = {0, 1}> {
    y = GroupNormalization <num_groups = 2, axis = -1> (x, s, b)
}"""
MEANING = "the operator has another meaning there"


@pytest.mark.parametrize(
    ("text", "opset", "version", "op", "reason"),
    [
        (resize("Resize", 0.5, 2), 10, 11, "Resize -> y", ROUNDING),
        (GIVEN, 10, 11, "Resize -> y", ROUNDING),
        (HARDMAX, 11, 13, "Hardmax -> y", MEANING),
        (HARDMAX.replace("axis = 1", "axis = 0"), 12, 13, "Hardmax -> y", MEANING),
        (HARDMAX.replace("<axis = 1>", ""), 12, 13, "Hardmax -> y", MEANING),
        (CALLER, 11, 13, "Hardmax -> q", MEANING),
        (SCAN, 8, 9, "Scan -> y", MEANING),
        (SCAN, 8, 10, "Scan -> y", MEANING),
        (GROUPS, 18, 21, "GroupNormalization -> y", MEANING),
        (CALLED_RESIZE, 10, 11, "Resize -> q", "it gets an attribute from the caller of the function"),
    ],
)
def test_what_cannot_be_corrected_is_refused(text, opset, version, op, reason) -> None:
    with pytest.raises(ModelError) as caught:
        upgraded(parsed(text, opset), version)
    name = op.split(maxsplit=1)[0]
    assert caught.value.message == (
        f"node '{op}' ({name}) cannot be converted from opset {opset} to {version}: {reason}"
    )
    assert caught.value.hint == f"export the model again with opset {version} or later"


@pytest.mark.parametrize(
    ("text", "opset", "version"),
    [
        (HARDMAX, 11, 12),
        (HARDMAX, 13, 14),
        (SCAN.replace('"", ', "").replace("1,2,2", "2,3").replace("[2]", "[3]"), 9, 11),
        (HARDMAX.replace("axis = 1", "axis = -1"), 11, 13),
        (GIVEN.replace("Resize (x, s)", 'Resize <mode = "linear"> (x, s)'), 10, 11),
    ],
)
def test_what_keeps_its_meaning_is_converted(text, opset, version) -> None:
    before = parsed(text, opset)
    after = upgraded(before, version)
    assert after.graph.node[-1].op_type == before.graph.node[-1].op_type
    if len(before.graph.input) == 1:
        x = np.array([[1, 3, 2], [5, 4, 6]], np.float32)
        assert np.array_equal(run(before, {"x": x})[0], run(after, {"x": x})[0])


def test_operators_of_other_domains_are_left() -> None:
    text = "g (float[2,3] x) => (float[2,3] y) { z = my.Hardmax (x) y = my.Upsample (z) }"
    assert upgraded(parsed(text, 9), 13).graph.node == parsed(text, 9).graph.node


@pytest.mark.parametrize(("version", "group"), [(20, "GroupNormalization"), (21, None)])
def test_a_group_normalization_is_refused_where_its_scale_changes(version: int, group: str | None) -> None:
    text = """g (float[1,4,2,2] x) => (float[1,4,2,2] y) <float[2] s = {1, 2}, float[2] b = {0, 1}> {
        y = GroupNormalization <num_groups = 2> (x, s, b)
    }"""
    if group is not None:
        assert upgraded(parsed(text, 18), version).graph.node[0].op_type == group
    else:
        with pytest.raises(ModelError, match=MEANING):
            upgraded(parsed(text, 18), version)


@pytest.mark.parametrize("elem_type", [TensorProto.FLOAT, TensorProto.DOUBLE, TensorProto.FLOAT16])
def test_constants_of_attributes_get_the_type_of_the_data(elem_type: int) -> None:
    name = {TensorProto.FLOAT: "float", TensorProto.DOUBLE: "double", TensorProto.FLOAT16: "float16"}[elem_type]
    nodes = {
        "Clip <min = -1.0, max = 2.5> (x)": [-1.0, 2.5],
        'Pad <mode = "constant", pads = [1, 1], value = 3.5> (x)': [3.5],
    }
    for node, values in nodes.items():
        before = parsed(f"g ({name}[4] x) => ({name}[n] y) {{ y = {node} }}", 10)
        after = upgraded(before, 13)
        constants = [each.attribute[0].t for each in after.graph.node if each.op_type == "Constant"]
        constants += list(after.graph.initializer)
        floats = [tensor for tensor in constants if tensor.data_type != TensorProto.INT64]
        assert [tensor.data_type for tensor in floats] == [elem_type] * len(values)
        assert [numpy_helper.to_array(tensor).item() for tensor in floats] == values
        onnx.checker.check_model(after, full_check=True)


def test_constants_beside_data_of_unknown_type_stay_float32() -> None:
    before = parsed("g (float[4] x) => (float[4] y) { z = my.Unknown (x) y = Clip <min = -1.0, max = 2.0> (z) }", 10)
    after = upgraded(before, 13)
    constants = [each.attribute[0].t for each in after.graph.node if each.op_type == "Constant"]
    assert {tensor.data_type for tensor in (*constants, *after.graph.initializer)} == {TensorProto.FLOAT}


def unknown_operator(model: onnx.ModelProto) -> None:
    model.graph.node[0].op_type = "Rleu"


def wrong_attribute(model: onnx.ModelProto) -> None:
    model.graph.node[0].attribute.append(helper.make_attribute("axis", "text"))


BROKEN: list[tuple[Callable[[onnx.ModelProto], None], str]] = [
    (unknown_operator, "node 'Rleu -> y' (Rleu) cannot be converted: opset 11 has no such operator"),
    (wrong_attribute, "attribute 'axis' of node 'Softmax -> y' (Softmax) has the wrong type"),
]


@pytest.mark.parametrize(("damage", "message"), BROKEN)
def test_what_would_end_the_process_is_refused(damage, message) -> None:
    model = parsed("g (float[2,3] x) => (float[2,3] y) { y = Softmax (x) }", 11)
    damage(model)
    with pytest.raises(ModelError) as caught:
        upgraded(model, 13)
    assert caught.value.message == message


def test_an_equation_with_two_ellipses_is_refused() -> None:
    model = parsed('g (float[2,3] x) => (float[2,3] y) { y = Einsum <equation = "......->..."> (x) }', 12)
    with pytest.raises(ModelError, match="a term of its equation has more than one ellipsis"):
        upgraded(model, 13)


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
