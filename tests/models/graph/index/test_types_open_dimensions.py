"""0 and -1 stand for open dimensions of inputs."""

import onnx
from onnx import TensorProto, helper

from qdqtool.models.graph.index.types import known_size, with_open_dimensions


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
