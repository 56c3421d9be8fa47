"""Tensors are followed to the products that read them, through operators that commute with factors, and no others."""

import onnx
import pytest
from support.layers_and_points import CONV, IMAGE, MATMUL, found, model, node

from qdqtool.models.graph.index.model_index import ModelIndex
from qdqtool.models.graph.model import Model
from qdqtool.models.transforms.rescaling_points import PointKind, find_rescaling_points

BLOCKED: dict[str, tuple[onnx.ModelProto, str, str]] = {
    "nothing reads it": (
        model([CONV, node("Neg", "x", "y")], IMAGE),
        "Conv.c",
        "nothing reads 'c'",
    ),
    "channels on another axis": (
        model([CONV, node("MatMul", "c v", "y")], (2, 4, 5, 6)),
        "Conv.c",
        "'MatMul.y' reads 'c' with its channels on another axis",
    ),
    "as the second operand": (
        model([MATMUL, node("MatMul", "x m", "y")], (8, 8)),
        "MatMul.m",
        "MatMul 'MatMul.y' reads 'm', and does not commute with factors",
    ),
    "as a slope": (
        model([CONV, node("PRelu", "x c", "p"), node("Conv", "p k", "y")], IMAGE),
        "Conv.c",
        "PRelu 'PRelu.p' reads 'c', and does not commute with factors",
    ),
    "indices of the largest": (
        model([CONV, node("MaxPool", "c", "p i", kernel_shape=[2, 2]), node("Conv", "p k", "y")], IMAGE, "y i"),
        "Conv.c",
        "MaxPool 'MaxPool.p' reads 'c', and does not commute with factors",
    ),
    "part of a channel": (
        model([MATMUL, node("Gemm", "m odd6", "y")], (3, 8)),
        "MatMul.m",
        "'Gemm.y' does not read the channels of 'm' one by one",
    ),
    "convolution of several channels": (
        model([CONV, node("Conv", "c double", "y")], IMAGE),
        "Conv.c",
        "'Conv.y' does not read the channels of 'c' one by one",
    ),
    "a product that has no channels": (
        model([MATMUL, node("Einsum", "m six6", "y", equation="ij,jk->ik")], (3, 8)),
        "MatMul.m",
        "Einsum 'Einsum.y' reads 'm', and does not commute with factors",
    ),
    "only the indices of the largest": (
        model([CONV, node("MaxPool", "c", "- i", kernel_shape=[2, 2]), node("Cast", "i", "y", to=1)], IMAGE),
        "Conv.c",
        "MaxPool 'MaxPool.' reads 'c', and does not commute with factors",
    ),
    "an output without a name": (
        model([CONV, node("Relu", "c", "-"), node("Neg", "x", "y")], IMAGE),
        "Conv.c",
        "Relu 'Relu.' reads 'c', and does not commute with factors",
    ),
    "an output of the graph behind it": (
        model([CONV, node("Relu", "c", "r"), node("Conv", "r k", "y")], IMAGE, "y r"),
        "Conv.c",
        "'r' is an output of the graph",
    ),
    "an operator with another meaning": (
        model([CONV, node("Sigmoid", "c", "r"), node("Conv", "r k", "y")], IMAGE),
        "Conv.c",
        "Sigmoid 'Sigmoid.r' reads 'c', and does not commute with factors",
    ),
    "one reader of two": (
        model([CONV, node("Conv", "c k", "y"), node("Sigmoid", "c", "z")], IMAGE, "y z"),
        "Conv.c",
        "Sigmoid 'Sigmoid.z' reads 'c', and does not commute with factors",
    ),
}


@pytest.mark.parametrize(("proto", "label", "reason"), BLOCKED.values(), ids=list(BLOCKED))
def test_a_walk_that_is_blocked_says_where(proto, label, reason):
    readers, reasons = found(proto, PointKind.PRODUCT)
    assert reasons[label] == reason
    assert label.split(".")[1] not in readers


def readers_of(nodes, outputs="y"):
    (point,), _ = find_rescaling_points(ModelIndex.of(Model(model(nodes, IMAGE, outputs))), PointKind.PRODUCT)
    return [(each.weight.node.label, each.tensor.name, each.layout.name, each.repeat) for each in point.readers]


def test_readers_have_the_tensor_its_layout_and_how_many_of_their_channels_share_a_factor():
    nodes = [
        CONV,
        node("Relu", "c", "r"),
        node("Conv", "r k", "y"),
        node("Flatten", "c", "f"),
        node("Gemm", "f h", "z"),
    ]
    assert readers_of(nodes, "y z") == [("Conv.y", "r", "FIRST", 1), ("Gemm.z", "f", "LAST", 25)]


def test_a_gemm_reads_channels_on_axis_one_of_two():
    nodes = [CONV, node("ReduceMean", "c", "p", axes=[2, 3], keepdims=0), node("Gemm", "p q", "y")]
    assert readers_of(nodes) == [("Gemm.y", "p", "FIRST", 1)]


@pytest.mark.parametrize("axes", [[2, 3], [-2, -1], [-1, 2]])
def test_a_matmul_of_two_axes_reads_channels_on_the_last(axes):
    proto = model([CONV, node("ReduceMean", "c", "p", axes=axes, keepdims=0), node("MatMul", "p q", "y")], IMAGE)
    assert found(proto, PointKind.PRODUCT) == ({"c": ("MatMul.y",)}, {"MatMul.y": "'y' is an output of the graph"})


@pytest.mark.parametrize("axes", [[3], [2]])
def test_a_matmul_of_three_axes_reads_another(axes):
    proto = model([CONV, node("ReduceMean", "c", "p", axes=axes, keepdims=0), node("MatMul", "p tall", "y")], IMAGE)
    reason = found(proto, PointKind.PRODUCT)[1]["Conv.c"]
    assert reason == "'MatMul.y' reads 'p' with its channels on another axis"


@pytest.mark.parametrize("axes", [[1], [-3], [0, 2], [-4]])
def test_a_mean_over_channels_or_the_batch_does_not_commute(axes):
    proto = model([CONV, node("ReduceMean", "c", "p", axes=axes), node("Conv", "p k", "y")], IMAGE)
    assert found(proto, PointKind.PRODUCT)[1]["Conv.c"].endswith("reads 'c', and does not commute with factors")


def reshaped(shape: list[int], *nodes: onnx.NodeProto) -> list[onnx.NodeProto]:
    return [CONV, node("Constant", "", "s", value_ints=shape), node("Reshape", "c s", "f"), *nodes]


@pytest.mark.parametrize("shape", [[2, -1], [-1, 100], [2, 100], [0, -1]])
def test_a_reshape_that_joins_all_but_the_batch_is_a_flatten(shape):
    assert readers_of(reshaped(shape, node("Gemm", "f h", "y"))) == [("Gemm.y", "f", "LAST", 25)]


@pytest.mark.parametrize("shape", [[2, 4, 25, 1], [-1, 4, 1, 25], [0, 0, -1, 1], [2, 4, 5, 5]])
def test_a_reshape_behind_the_channels_keeps_them(shape):
    assert readers_of(reshaped(shape, node("Conv", "f k", "y"))) == [("Conv.y", "f", "FIRST", 1)]


@pytest.mark.parametrize("shape", [[4, 50], [1, 200], [2, 5, 4, 5], [2, 100, 1, 1], [1, 8, 5, 5], [4, 2, 5, 5], [200]])
def test_a_reshape_of_batch_or_channels_does_not_commute(shape):
    proto = model(reshaped(shape, node("Neg", "f", "y")), IMAGE)
    assert (
        found(proto, PointKind.PRODUCT)[1]["Conv.c"]
        == "Reshape 'Reshape.f' reads 'c', and does not commute with factors"
    )


def test_the_pooled_head_of_either_exporter_of_pytorch_is_followed():
    older = [CONV, node("GlobalAveragePool", "c", "p"), node("Flatten", "p", "f"), node("Gemm", "f q", "y")]
    newer = [
        CONV,
        node("ReduceMean", "c", "p", axes=[-1, -2]),
        node("Constant", "", "s", value_ints=[2, 4]),
        node("Reshape", "p s", "f"),
        node("Gemm", "f q", "y"),
    ]
    assert readers_of(older) == readers_of(newer) == [("Gemm.y", "f", "LAST", 1)]


def test_a_reshape_of_open_extents_behind_the_batch_does_not_commute():
    proto = model(reshaped([2, -1], node("Neg", "f", "y")), IMAGE)
    for axis in (2, 3):
        proto.graph.input[0].type.tensor_type.shape.dim[axis].dim_param = f"d{axis}"
    assert (
        found(proto, PointKind.PRODUCT)[1]["Conv.c"]
        == "Reshape 'Reshape.f' reads 'c', and does not commute with factors"
    )


@pytest.mark.parametrize("count", [31, 32])
def test_a_row_of_at_most_31_operators_is_followed(count):
    relus = [node("Relu", "c" if not number else f"r{number - 1}", f"r{number}") for number in range(count)]
    proto = model([CONV, *relus, node("Conv", f"r{count - 1} k", "y")], IMAGE)
    readers, reasons = found(proto, PointKind.PRODUCT)
    assert readers == ({"c": ("Conv.y",)} if count == 31 else {})
    assert reasons.get("Conv.c") == (None if count == 31 else "too many nodes are between it and its readers")
