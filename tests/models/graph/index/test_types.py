"""Types and shapes in every scope, and none where nobody can know."""

from pathlib import Path

import onnx
import pytest
from onnx import TensorProto, helper

from qdqtool.models.graph.index.types import TensorTypes, known_size, may_be_equal, with_open_dimensions
from qdqtool.models.graph.index.view import GraphView
from qdqtool.models.graph.io.load import load_model
from qdqtool.models.graph.model import Model

F32, F16, I64 = TensorProto.FLOAT, TensorProto.FLOAT16, TensorProto.INT64


def typed(model: onnx.ModelProto) -> tuple[GraphView, TensorTypes]:
    view = GraphView(Model(model))
    return view, TensorTypes(view)


def value_info(name: str, kind: int, shape: list[int | str]) -> onnx.ValueInfoProto:
    return helper.make_tensor_value_info(name, kind, shape)


def test_bodies_and_nested_functions_are_inferred() -> None:
    inner = helper.make_function(
        "f", "Inner", ["a"], ["b"], [helper.make_node("Cast", ["a"], ["b"], to=F16)], [helper.make_opsetid("", 17)]
    )
    outer = helper.make_function(
        "f",
        "Outer",
        ["p"],
        ["q"],
        [helper.make_node("Inner", ["p"], ["m"], domain="f"), helper.make_node("Relu", ["m"], ["q"])],
        [helper.make_opsetid("", 17), helper.make_opsetid("f", 1)],
    )
    branch = helper.make_graph([helper.make_node("Abs", ["y"], ["t"])], "b", [], [value_info("t", F16, [2, 3])])
    graph = helper.make_graph(
        [
            helper.make_node("Outer", ["x"], ["y"], domain="f"),
            helper.make_node("If", ["flag"], ["z"], then_branch=branch, else_branch=branch),
        ],
        "g",
        [value_info("x", F32, [2, 3]), value_info("flag", TensorProto.BOOL, [])],
        [value_info("z", F16, [2, 3])],
    )
    imports = [helper.make_opsetid("", 17), helper.make_opsetid("f", 1)]
    view, types = typed(helper.make_model(graph, functions=[inner, outer], opset_imports=imports))
    seen = {(scope.path, name): types.elem_type(value) for scope in view.scopes for name, value in scope.values.items()}
    assert seen[("f::Outer",), "p"] == F32
    assert seen[("f::Outer",), "m"] == F16
    assert seen[("f::Inner",), "a"] == F32
    assert seen[("f::Inner",), "b"] == F16
    assert seen[("z.then_branch",), "t"] == F16
    assert types.shape(view.main.values["y"]) == (2, 3)


def test_symbolic_and_unknown_extents() -> None:
    graph = helper.make_graph(
        [helper.make_node("Relu", ["x"], ["r"]), helper.make_node("NonZero", ["r"], ["n"])],
        "g",
        [value_info("x", F32, ["batch", 4])],
        [helper.make_empty_tensor_value_info("n")],
    )
    view, types = typed(helper.make_model(graph))
    assert types.shape(view.main.values["r"]) == ("batch", 4)
    shape = types.shape(view.main.values["n"])
    assert shape is not None
    assert shape[0] == 2
    assert not isinstance(shape[1], int)


def test_a_model_that_inference_rejects_keeps_its_declared_types() -> None:
    graph = helper.make_graph(
        [helper.make_node("Unknown", ["x"], ["u"]), helper.make_node("MatMul", ["x", "x"], ["m"])],
        "g",
        [value_info("x", F32, [2, 3, 5])],
        [value_info("m", F32, [2])],
    )
    view, types = typed(helper.make_model(graph))
    assert types.elem_type(view.main.values["x"]) == F32
    assert types.elem_type(view.main.values["u"]) is None


def test_real_models_are_fully_typed(real_model: Path) -> None:
    view = GraphView(load_model(real_model))
    types = TensorTypes(view)
    assert [value.qualified_name for value in view.values() if types.elem_type(value) is None] == []


def test_a_wild_vector_behind_a_cast_takes_no_memory():
    model = onnx.parser.parse_model("""
    <ir_version: 10, opset_import: ["": 21]>
    g (float[1099511627776] i, float[4,n] x) => (float[k] y) {
        long = Cast <to = 7> (i)
        y = Neg (x)
    }
    """)
    types = TensorTypes(GraphView(Model(model)))

    assert types.elem_type(types._view.main.values["long"]) == onnx.TensorProto.INT64


def graph_types(text: str) -> dict[tuple[tuple[str, ...], str], tuple[int | None, tuple[int | str | None, ...] | None]]:
    """Type and shape of each tensor of a model, by its scope and name."""
    view, types = typed(onnx.parser.parse_model(text))
    return {(value.scope.path, value.name): (types.elem_type(value), types.shape(value)) for value in view.values()}


def test_extents_are_numbers_names_or_unknown() -> None:
    given = value_info("x", F32, [0, "n", 5, None, 7])  # type: ignore[list-item]
    given.type.tensor_type.shape.dim[4].dim_value = -1
    wide = helper.make_tensor_value_info("w", F32, None)
    untyped = onnx.ValueInfoProto(name="u")
    untyped.type.tensor_type.shape.dim.add(dim_value=2)
    bare = onnx.ValueInfoProto(name="b")
    scalar = value_info("s", F16, [])
    none = helper.make_tensor("none", I64, [0], [])
    nodes = [helper.make_node("Neg", ["none"], ["empty"])]
    graph = helper.make_graph(nodes, "g", [given, wide, untyped, bare, scalar], [], [none])
    view, types = typed(helper.make_model(graph))
    values = view.main.values
    assert types.shape(values["x"]) == (None, "n", 5, None, None), "an input of extent 0 takes any"
    assert (types.shape(values["none"]), types.shape(values["empty"])) == ((0,), (0,))
    assert (types.elem_type(values["w"]), types.shape(values["w"])) == (F32, None)
    assert (types.elem_type(values["u"]), types.shape(values["u"])) == (None, (2,))
    assert (types.elem_type(values["b"]), types.shape(values["b"])) == (None, None)
    assert (types.elem_type(values["s"]), types.shape(values["s"])) == (F16, ())


def test_a_sequence_has_a_type_and_no_element_type_of_its_own() -> None:
    graph = helper.make_graph(
        [helper.make_node("SequenceConstruct", ["x"], ["s"])],
        "g",
        [value_info("x", F32, [2])],
        [helper.make_tensor_sequence_value_info("s", F32, None)],
    )
    view, types = typed(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)]))
    value = view.main.values["s"]
    kind = types.type_proto(value)
    assert kind is not None
    assert kind.HasField("sequence_type")
    assert (types.elem_type(value), types.shape(value)) == (None, None)


def test_stored_tensors_are_typed_where_inference_fails() -> None:
    constant = helper.make_node("Constant", [], ["c"], value=helper.make_tensor("", F16, [1, 2], [0, 0]))
    number = helper.make_node("Constant", [], ["f"], value_float=1.0)
    filled = helper.make_node("ConstantOfShape", ["i"], ["o"], value=helper.make_tensor("", F16, [1], [0]))
    sparse = helper.make_sparse_tensor(
        helper.make_tensor("p", F32, [1], [2.0]), helper.make_tensor("", I64, [1], [1]), [3]
    )
    graph = helper.make_graph([constant, number, filled], "g", [], [], [helper.make_tensor("i", I64, [1], [4])])
    graph.sparse_initializer.append(sparse)
    model = helper.make_model(graph)
    model.ClearField("opset_import")
    view, types = typed(model)
    found = {name: (types.elem_type(value), types.shape(value)) for name, value in view.main.values.items()}
    assert found == {"i": (I64, (1,)), "p": (None, None), "c": (F16, (1, 2)), "f": (None, None), "o": (None, None)}
    assert types.type_proto(view.main.values["i"]).tensor_type.elem_type == I64


FUNCTIONS = """<ir_version: 10, opset_import: ["": 21, "my": 1]>
g (float[2,3] x, float16[4] h) => (y, z, t) {
    lost = your.Unknown (x)
    two = my.Two (h, lost)
    two2 = my.Two (nowhere, h)
    two3 = my.Two (h, x)
    a = my.Many (lost)
    b = my.Many (h)
    c = my.Many (x)
    y = my.Optional (x, , h)
    z = my.Late (x)
    t = my.Unreached (lost)
}
<domain: "my", opset_import: ["": 21]> Two (p, o) => (q) { q = Relu (p) }
<domain: "my", opset_import: ["": 21]> Many (p) => (q) { q = Relu (p) }
<domain: "my", opset_import: ["": 21, "my": 1]> Late (p) => (q) { r = my.Many (p) q = Neg (r) }
<domain: "my", opset_import: ["": 21]> Optional (p, n, m) => (q) { q = Transpose <perm = [1, 0]> (p) k = Abs (m) }
<domain: "my", opset_import: ["": 21]> Unreached (p) => (q) { q = Relu (p) }
<domain: "my", opset_import: ["": 21]> Uncalled (p) => (q) { q = Relu (p)  i = Cast <to = 7> (p) }
"""


def test_a_function_has_the_types_of_its_first_call_whose_inputs_are_known() -> None:
    found = graph_types(FUNCTIONS)
    told = {(path[0].removeprefix("my::"), name): kind for (path, name), kind in found.items() if path}
    assert {key: kind for key, kind in told.items() if kind[0] is not None} == {
        ("Two", "p"): (F16, (4,)),
        ("Two", "o"): (F32, (2, 3)),
        ("Two", "q"): (F16, (4,)),
        ("Many", "p"): (F16, (4,)),
        ("Many", "q"): (F16, (4,)),
        ("Optional", "p"): (F32, (2, 3)),
        ("Optional", "q"): (F32, (3, 2)),
        ("Optional", "m"): (F16, (4,)),
        ("Optional", "k"): (F16, (4,)),
        ("Late", "p"): (F32, (2, 3)),
        ("Late", "r"): (F32, (2, 3)),
        ("Late", "q"): (F32, (2, 3)),
    }


def test_types_that_a_function_declares_are_kept() -> None:
    model = onnx.parser.parse_model(FUNCTIONS)
    (function,) = [each for each in model.functions if each.name == "Many"]
    function.node.append(helper.make_node("Mystery", ["p"], ["m"], domain="your"))
    function.opset_import.append(helper.make_opsetid("your", 1))
    function.value_info.extend([value_info("m", I64, [7]), onnx.ValueInfoProto(name="q")])
    view, types = typed(model)
    values = view.scope(("my::Many",)).values
    assert (types.elem_type(values["m"]), types.shape(values["m"])) == (I64, (7,))
    assert types.elem_type(values["q"]) == F16


def test_the_given_model_stays_as_it_is() -> None:
    model = onnx.parser.parse_model(FUNCTIONS)
    typed(model)
    assert model == onnx.parser.parse_model(FUNCTIONS)


def test_a_stored_tensor_is_typed_as_it_is_stored() -> None:
    graph = helper.make_graph(
        [helper.make_node("Unknown", ["w"], ["u"], domain="your")],
        "g",
        [],
        [],
        [helper.make_tensor("w", I64, [2], [1, 2])],
        value_info=[value_info("w", F32, [7])],
    )
    view, types = typed(helper.make_model(graph))
    assert (types.elem_type(view.main.values["w"]), types.shape(view.main.values["w"])) == (I64, (2,))


def test_bodies_of_a_function_that_nothing_calls_keep_what_they_declare() -> None:
    body = helper.make_graph([helper.make_node("Neg", ["p"], ["t"])], "b", [], [value_info("t", F16, [-1, 3])])
    nodes = [helper.make_node("If", ["c"], ["q"], then_branch=body, else_branch=body)]
    functions = [
        helper.make_function("my", "First", ["p"], ["q"], [helper.make_node("Relu", ["p"], ["q"])], []),
        helper.make_function("my", "Idle", ["c", "p"], ["q"], nodes, []),
    ]
    functions[1].value_info.append(value_info("q", F32, [-1, 3]))
    view, types = typed(helper.make_model(helper.make_graph([], "g", [], []), functions=functions))
    value = view.scope(("my::Idle", "q.then_branch")).values["t"]
    assert (types.elem_type(value), types.shape(value)) == (F16, (None, 3))


@pytest.mark.parametrize(
    ("left", "right", "expected"),
    [
        ((1, 16, 8, 8), (1, 16, 8, 8), True),
        ((1, 16, 8, 8), (1, 16, 8, 9), False),
        ((1, 16, 8), (1, 16, 8, 8), False),
        (("n", 16, "unk__0"), ("n", 16, "unk__1"), True),
        (("n", 16, None), ("n", 16, 8), True),
        (("n", 16, "h"), ("n", 8, "h"), False),
        ((1, 16, "h"), ("n", 16, "h"), True),
        (("n", 16, 1), ("n", 16, "h"), False),
        (("n", 16, 1), ("n", 16, 1), True),
        (("n", 16, None), ("n", 16, 1), False),
        ((), (), True),
    ],
)
def test_shapes_may_be_equal_unless_something_known_differs(left, right, expected):
    assert may_be_equal(left, right) is expected
    assert may_be_equal(right, left) is expected


# 0 and -1 stand for open dimensions of inputs.


def relu(shape: list[int | str]) -> onnx.ModelProto:
    infos = [helper.make_tensor_value_info(name, TensorProto.FLOAT, shape) for name in "xy"]
    graph = helper.make_graph([helper.make_node("Relu", ["x"], ["y"])], "g", infos[:1], infos[1:])
    return helper.make_model(graph)


def sizes(value: onnx.ValueInfoProto) -> list[int | None]:
    return [known_size(dim) for dim in value.type.tensor_type.shape.dim]


def test_a_usual_model_is_not_copied():
    model = relu(["n", 3])
    assert with_open_dimensions(model) is model


def test_what_follows_from_such_a_dimension_is_open_too():
    model = relu([-1, 3, 0])
    before = model.SerializeToString()
    opened = with_open_dimensions(model)
    dims = [*opened.graph.input[0].type.tensor_type.shape.dim, *opened.graph.output[0].type.tensor_type.shape.dim]
    assert [dim.HasField("dim_value") for dim in dims] == [False, True, False] * 2
    assert sizes(opened.graph.input[0]) == sizes(model.graph.input[0]) == [None, 3, None]
    assert model.SerializeToString() == before


CONTRIB = """<ir_version: 10, opset_import: ["": 21, "com.microsoft": 1]>
g (float[2,8,32] x, float[32] g, float[2,8,2,3,16] packed, int64[2,8] p, float[9,8] c) => (float[2,8,32] y) {{
  a = com.microsoft.MultiHeadAttention <num_heads = 2> ({query}) b = com.microsoft.QuickGelu (a)
  r = SimplifiedLayerNormalization (b, g)
  s, mean, deviation, sum = com.microsoft.SkipSimplifiedLayerNormalization (r, x, g)
  y = Add (s, sum)
}}"""


@pytest.mark.parametrize(("query", "is_known"), [("x, x, x", True), ("packed", False)])
def test_operators_of_onnx_runtime_that_keep_the_type_are_followed(query: str, is_known: bool) -> None:
    view, types = typed(onnx.parser.parse_model(CONTRIB.format(query=query)))
    values = view.scope(()).values
    found = [types.shape(values[name]) for name in ("a", "b", "r", "s", "sum")]
    assert found == [(2, 8, 32) if is_known else None] * 5
    assert types.elem_type(values["mean"]) is None


def test_a_local_function_with_such_a_name_has_its_own_types() -> None:
    text = CONTRIB.format(query="x, x, x") + (
        '<domain: "com.microsoft", opset_import: ["": 21]> QuickGelu (a) => (b) { b = Cast <to = 10> (a) }'
    )
    view, types = typed(onnx.parser.parse_model(text))
    assert types.elem_type(view.scope(()).values["b"]) == F16


def test_outputs_of_a_plugin_are_like_the_input_that_its_rule_names():
    text = """<ir_version: 10, opset_import: ["": 21, "acme": 1],
        metadata_props: ["qdqtool.plugin_operators": "acme::Two=same-as-input-1"]>
    agraph (float[2] x, float16[3, 4] z, bool c) => (float16[3, 4] y) {
        a, b = acme.Two (x, z)
        t = Abs (b)
        y = If (c) <then_branch = one () => (float16[3, 4] o) { o = acme.Two (x, t) },
                    else_branch = two () => (float16[3, 4] p) { p = Identity (a) }>
    }"""
    view = GraphView(Model(onnx.parser.parse_model(text)))
    types = TensorTypes(view)
    values = [view.main.values[name] for name in ("a", "b", "t")]
    assert {(types.elem_type(each), types.shape(each)) for each in values} == {(TensorProto.FLOAT16, (3, 4))}


def test_a_plugin_without_such_an_input_has_no_type():
    text = """<ir_version: 10, opset_import: ["": 21, "acme": 1],
        metadata_props: ["qdqtool.plugin_operators": "acme::Two=same-as-input-3"]>
    agraph (float[2] x) => (float[2] y) {
        a = acme.Two (x)
        y = acme.Three (a)
    }"""
    view = GraphView(Model(onnx.parser.parse_model(text)))
    assert TensorTypes(view).elem_type(view.main.values["a"]) is None
