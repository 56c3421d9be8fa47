"""Types and shapes in every scope, and none where nobody can know."""

from pathlib import Path

import onnx
from onnx import TensorProto, helper

from qdqtool.graph.index.types import TensorTypes
from qdqtool.graph.index.view import GraphView
from qdqtool.graph.io.load import load_model
from qdqtool.graph.model import Model

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
