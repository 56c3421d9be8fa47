"""Types and shapes are onnx's, and vectors too long to be shapes are not expanded."""

import onnx
import pytest
from onnx import TensorProto, helper
from support.rich_model import rich_model
from support.small import conv_model

from qdqtool.models.graph.index.inference import LONGEST, Contradiction, contradictions, infer_types, is_endless

BEHIND_A_SHAPE = """
<ir_version: 8, opset_import: ["": 17]>
g (float[%s, 4] x, float[24] flat, int64[%d] numbers) => (float[a, b] y) <int64[1] rest = {-1}, int64 one = {1}> {
  dims = Shape (x)
  width = Gather (dims, one)
  width1 = Unsqueeze (width, rest0)
  shape = Concat <axis = 0> (rest, width1)
  wide = Cast <to = 1> (numbers)
  y = Reshape (flat, shape)
}
"""
"""A shape computed from that of an input, beside a Cast of a vector of so many numbers."""


def model(numbers: int = 3, rows: str = "6") -> onnx.ModelProto:
    proto = onnx.parser.parse_model(BEHIND_A_SHAPE % (rows, numbers))
    proto.graph.initializer.append(helper.make_tensor("rest0", TensorProto.INT64, [1], [0]))
    return proto


def shape_of(proto: onnx.ModelProto, name: str) -> list[int]:
    values = [*proto.graph.value_info, *proto.graph.output]
    (found,) = [value.type.tensor_type.shape.dim for value in values if value.name == name]
    return [dim.dim_value for dim in found]


def test_shapes_that_are_computed_from_shapes_are_found():
    assert shape_of(infer_types(model()).proto, "y") == [6, 4]
    plain = onnx.shape_inference.infer_shapes(model())
    assert shape_of(plain, "y") == [0, 0], "else the test shows nothing"


@pytest.mark.parametrize(("numbers", "found"), [(LONGEST, [6, 4]), (LONGEST + 1, [0, 0])])
def test_numbers_are_not_followed_beside_a_vector_longer_than_a_shape_can_be(numbers, found):
    assert shape_of(infer_types(model(numbers)).proto, "y") == found


@pytest.mark.parametrize("hidden", ["output", "body"])
def test_long_vectors_are_seen_wherever_they_are_declared(hidden):
    proto = model()
    long = helper.make_tensor_value_info("long", TensorProto.INT64, [LONGEST + 1])
    if hidden == "output":
        proto.graph.node.append(helper.make_node("Cast", ["anything"], ["long"], to=TensorProto.INT64))
        proto.graph.input.append(helper.make_tensor_value_info("anything", TensorProto.FLOAT, None))
        proto.graph.output.append(long)
    else:
        returned = helper.make_tensor_value_info("n", TensorProto.FLOAT, None)
        body = helper.make_graph([helper.make_node("Neg", ["x"], ["n"])], "body", [], [returned], value_info=[long])
        proto.graph.node.append(helper.make_node("If", ["c"], ["z"], then_branch=body, else_branch=body))
    assert shape_of(infer_types(proto).proto, "y") == [0, 0]


@pytest.mark.parametrize("make", [conv_model, rich_model])
def test_a_model_without_shape_arithmetic_gets_what_onnx_infers(make):
    proto = make()
    plain = onnx.shape_inference.infer_shapes(proto)
    inferred = infer_types(proto).proto
    assert {value.name: value for value in inferred.graph.value_info}.keys() >= {
        value.name for value in plain.graph.value_info
    }
    assert proto == make(), "the given model stays"


def test_a_model_on_which_inference_fails_is_given_back():
    proto = conv_model()
    proto.ClearField("opset_import")
    with pytest.raises(Exception, match="opset"):
        onnx.shape_inference.infer_shapes(proto)
    assert infer_types(proto).proto is proto


def test_contradicting_shapes_are_no_failure():
    proto = conv_model()
    proto.graph.output[0].type.tensor_type.shape.dim[1].dim_value = 99
    assert any(value.name == "c" for value in infer_types(proto).proto.graph.value_info)


def einsum(equation: str, scope: str = "main") -> onnx.ModelProto:
    """A model with one Einsum: in its graph, in a branch or in a local function."""
    arity = len(equation.split("->", maxsplit=1)[0].split(","))
    names = [f"x{number}" for number in range(arity)]
    inputs = [helper.make_tensor_value_info(name, TensorProto.FLOAT, [2, 2]) for name in names]
    node = helper.make_node("Einsum", names, ["y"], equation=equation)
    output = helper.make_tensor_value_info("y", TensorProto.FLOAT, None)
    graph, functions = helper.make_graph([node], "g", inputs, [output]), []
    if scope == "branch":
        branches = {f"{which}_branch": helper.make_graph([node], which, [], [output]) for which in ("then", "else")}
        choice = helper.make_node("If", ["c"], ["z"], **branches)
        condition = helper.make_tensor_value_info("c", TensorProto.BOOL, [])
        result = helper.make_tensor_value_info("z", TensorProto.FLOAT, None)
        graph = helper.make_graph([choice], "g", [*inputs, condition], [result])
    if scope == "function":
        functions = [helper.make_function("own", "F", names, ["y"], [node], [helper.make_opsetid("", 17)])]
        call = helper.make_node("F", names, ["y"], domain="own")
        graph = helper.make_graph([call], "g", inputs, [output])
    imports = [helper.make_opsetid("", 17), helper.make_opsetid("own", 1)]
    return helper.make_model(graph, functions=functions, opset_imports=imports, ir_version=8)


@pytest.mark.parametrize("scope", ["main", "branch", "function"])
@pytest.mark.parametrize(
    "equation", ["......ii,...jj->...ij", "ii,....jj->ij", "...i...->i", "..  ..", ".. . i ...->i"]
)
def test_inference_ends_on_an_einsum_with_a_second_ellipsis(equation: str, scope: str):
    before = einsum(equation, scope).SerializeToString()
    proto = onnx.load_from_string(before)
    if scope == "main":
        assert is_endless(proto.graph.node[0])
    infer_types(proto)
    assert proto.SerializeToString() == before


@pytest.mark.parametrize("equation", ["...ij,...jk->...ik", "ii", "i,j->ij", "...ii->.... i", "..i->i"])
def test_other_equations_are_inferred(equation: str):
    proto = einsum(equation)
    assert not is_endless(proto.graph.node[0])
    infer_types(proto)


def test_other_nodes_are_inferred_beside_an_endless_one():
    proto = einsum("......ii,...jj->...ij")
    proto.graph.node.append(helper.make_node("Shape", ["x0"], ["s"]))
    (found,) = [value for value in infer_types(proto).proto.graph.value_info if value.name == "s"]
    assert found.type.tensor_type.elem_type == TensorProto.INT64


def test_only_an_einsum_is_endless():
    assert not is_endless(helper.make_node("Other", ["x"], ["y"], domain="my", equation="......ii->i"))
    assert not is_endless(helper.make_node("Einsum", ["x"], ["y"]))


def test_a_type_that_contradicts_its_operator_does_not_hide_the_others():
    proto = conv_model()
    proto.graph.input[0].type.tensor_type.elem_type = TensorProto.STRING
    assert [value.name for value in infer_types(proto).proto.graph.value_info] == ["c", "r"]


def test_what_contradicts_an_operator_has_the_place_of_its_node():
    proto = onnx.parser.parse_model(
        '<ir_version: 9, opset_import: ["": 19]> g (float[2,3] x, float[4,5] w) => (float[N,M] y)'
        " { r = Relu (x)  y = MatMul (r, w) }"
    )
    assert not infer_types(proto).is_sound
    assert contradictions(proto) == [Contradiction((), 1, "Incompatible dimensions for matrix multiplication")]


def test_a_sound_model_contradicts_nothing():
    assert infer_types(model()).is_sound
    assert contradictions(model()) == []
