"""Example shapes in messages: the model runs on them where its first layer tells the channels."""

import numpy as np
import pytest
from onnx import helper
from support.small import conv_model, make_model, run

from qdqtool.models.graph.index.model_index import ModelIndex
from qdqtool.models.graph.model import Model
from qdqtool.samples.input_shapes import parse_shapes
from qdqtool.samples.noise import example_option


def conv(*dims: int | str | None):
    """The model, its input declared with these dimensions; without any its rank is unknown."""
    proto = conv_model()
    kind = proto.graph.input[0].type.tensor_type
    kind.ClearField("shape")
    for dim in dims:
        kind.shape.dim.add(**({"dim_value": dim} if isinstance(dim, int) else {"dim_param": dim} if dim else {}))
    proto.graph.output[0].type.tensor_type.ClearField("shape")
    return proto


def example(proto, inputs, **known: int) -> str:
    return example_option(ModelIndex.of(Model(proto)), inputs, known)


@pytest.mark.parametrize(
    ("dims", "shape"),
    [
        (("n", "c", "h", "w"), "x:1x3x224x224"),
        ((2, None, "h", 16), "x:2x3x224x16"),
        (None, "x:1x3x224x224"),
    ],
)
def test_a_convolution_tells_rank_and_channels(dims, shape):
    proto = conv(*dims or ())

    assert example(proto, {"x": dims}) == shape
    x = np.zeros(parse_shapes([shape], "")["x"], np.float32)
    assert run(proto, {"x": x})[0].shape[0] == x.shape[0]


def test_a_matrix_product_behind_a_cast_tells_the_last_dimension():
    weights = {"w": np.ones((24, 6), np.float32)}
    nodes = [helper.make_node("Cast", ["x"], ["c"], to=1), helper.make_node("Gemm", ["c", "w"], ["y"])]
    proto = make_model(nodes, {"x": ("n", "k")}, {"y": ("n", 6)}, weights)

    assert example(proto, {"x": ("n", "k")}) == "x:1x24"


def test_a_symbol_has_one_size_everywhere_and_known_ones_are_kept():
    nodes = [helper.make_node("Add", ["a", "b"], ["y"])]
    proto = make_model(nodes, {"a": ("n", "t"), "b": ("n", "t", "t", "t")}, {"y": ("n", "t")}, {})
    inputs = {"a": ("n", "t"), "b": ("n", "t", "t", "t")}

    assert example(proto, inputs) == "a:1x128,b:1x128x128x128"
    assert example(proto, inputs, n=4, t=7) == "a:4x7,b:4x7x7x7"
