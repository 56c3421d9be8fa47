"""Factors move through points without changing outputs in ONNX Runtime; other layers are named with the reason."""

from collections.abc import Iterable
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper
from support.layers_and_points import CONV, IMAGE, MATMUL, ROWS, found, model, node, weight
from support.small import run

from qdqtool.models.graph.index.model_index import ModelIndex
from qdqtool.models.graph.io.save import save_model
from qdqtool.models.graph.model import Model
from qdqtool.models.ops import ChannelLayout
from qdqtool.models.transforms.rescaling_points import PointKind, find_rescaling_points, point_tensors
from qdqtool.quantization.preparation.rescaling import rescale

LIMIT = 1e-5


def assert_factors_move(proto: onnx.ModelProto, kind: PointKind, folder: Path) -> None:
    """Moving random factors through all points changes outputs by rounding, and every point's tensor by its factors."""
    index = ModelIndex.of(Model(proto))
    points, _ = find_rescaling_points(index, kind)
    rng = np.random.default_rng(5)
    factors = {point: np.exp2(rng.uniform(-3, 3, point.channels)) for point in points}
    result = rescale(index, factors)
    path = save_model(result.model, folder / "rescaled.onnx").model
    shape = [dim.dim_value for dim in proto.graph.input[0].type.tensor_type.shape.dim]
    feeds = {"x": rng.normal(size=shape).astype(np.float32)}
    read = {reader.tensor.name: reader for point in points for reader in point.readers}
    before, after = (run(tapped(each, read), feeds) for each in (proto, onnx.load(path)))
    count = len(proto.graph.output)
    for name, old, new in zip(read, before[count:], after[count:], strict=True):
        by = result.report[(), name]
        axis = 1 if read[name].layout is ChannelLayout.FIRST else -1
        along = [1] * old.ndim
        along[axis] = by.size
        np.testing.assert_allclose(new, old / by.reshape(along), rtol=1e-4, atol=1e-6)
    for old, new in zip(before[:count], after[:count], strict=True):
        assert np.abs(old - new).max() <= LIMIT * np.abs(old).max()


def tapped(proto: onnx.ModelProto, names: Iterable[str]) -> onnx.ModelProto:
    copy = onnx.ModelProto()
    copy.CopyFrom(proto)
    copy.graph.output.extend(onnx.ValueInfoProto(name=name) for name in names)
    return copy


FOUND: dict[str, tuple[PointKind, onnx.ModelProto, dict[str, tuple[str, ...]]]] = {
    "norm without bias": (
        PointKind.NORM,
        model([node("LayerNormalization", "x scale", "n"), node("MatMul", "n u", "y")], ROWS),
        {"n": ("MatMul.y",)},
    ),
    "norm over an axis that is last": (
        PointKind.NORM,
        model([node("LayerNormalization", "x scale shift", "n", axis=-1), node("MatMul", "n u", "y")], ROWS),
        {"n": ("MatMul.y",)},
    ),
    "norm of channels": (
        PointKind.NORM,
        model([node("InstanceNormalization", "x four b", "n"), node("Conv", "n w", "y")], IMAGE),
        {"n": ("Conv.y",)},
    ),
    "vector on the right": (
        PointKind.NORM,
        model([node("Mul", "x wide", "n"), node("MatMul", "n u", "y")], ROWS),
        {"n": ("MatMul.y",)},
    ),
    "vector on the left": (
        PointKind.NORM,
        model([node("Mul", "scale x", "n"), node("MatMul", "n u", "y")], ROWS),
        {"n": ("MatMul.y",)},
    ),
    "vector and bias": (
        PointKind.NORM,
        model([node("Mul", "x scale", "n"), node("Add", "n shift", "a"), node("MatMul", "a u", "y")], ROWS),
        {"a": ("MatMul.y",)},
    ),
    "bias on the left": (
        PointKind.PRODUCT,
        model([node("MatMul", "x u", "m"), node("Add", "six m", "a"), node("MatMul", "a v", "y")], ROWS),
        {"a": ("MatMul.y",)},
    ),
    "bias on the right": (
        PointKind.PRODUCT,
        model([node("MatMul", "x u", "m"), node("Add", "m row6", "a"), node("MatMul", "a v", "y")], ROWS),
        {"a": ("MatMul.y",)},
    ),
    "Gemm with bias": (
        PointKind.PRODUCT,
        model([node("Gemm", "x u six", "m", alpha=0.5, beta=2.0), node("Gemm", "m v four", "y")], (3, 8)),
        {"m": ("Gemm.y",)},
    ),
    "Gemm behind a convolution": (
        PointKind.PRODUCT,
        model([node("Conv", "x w b", "c"), node("Flatten", "c", "f"), node("Gemm", "f g gb", "y", transB=1)], IMAGE),
        {"c": ("Gemm.y",)},
    ),
    "an omitted second output": (
        PointKind.PRODUCT,
        model(
            [node("Conv", "x w", "c"), node("MaxPool", "c", "p -", kernel_shape=[2, 2]), node("Conv", "p k", "y")],
            IMAGE,
        ),
        {"c": ("Conv.y",)},
    ),
    "two readers, one behind Relu": (
        PointKind.PRODUCT,
        model(
            [node("Conv", "x w b", "c"), node("Conv", "c o", "z"), node("Relu", "c", "r"), node("Conv", "r k", "y")],
            IMAGE,
            "y z",
        ),
        {"c": ("Conv.z", "Conv.y")},
    ),
}


@pytest.mark.parametrize(("kind", "proto", "readers"), FOUND.values(), ids=list(FOUND))
def test_factors_move_through_each_kind_of_joint(kind, proto, readers, tmp_path):
    assert found(proto, kind)[0] == readers
    assert_factors_move(proto, kind, tmp_path)


REASONS: dict[str, tuple[PointKind, onnx.ModelProto, str, str]] = {
    "norm over two axes": (
        PointKind.NORM,
        model([node("LayerNormalization", "x five8", "n", axis=1), node("MatMul", "n u", "y")], ROWS),
        "LayerNormalization.n",
        "it normalizes over more than the last axis",
    ),
    "norm with its mean": (
        PointKind.NORM,
        model([node("LayerNormalization", "x scale shift", "n mean"), node("MatMul", "n u", "y")], ROWS),
        "LayerNormalization.n",
        "it also returns the mean or the variance",
    ),
    "norm with a computed scale": (
        PointKind.NORM,
        model([node("LayerNormalization", "x x", "n"), node("MatMul", "n u", "y")], (8,)),
        "LayerNormalization.n",
        "input 1 of 'LayerNormalization.n' is computed, not stored",
    ),
    "norm with a bias of another length": (
        PointKind.NORM,
        model([node("LayerNormalization", "x scale six", "n"), node("MatMul", "n u", "y")], ROWS),
        "LayerNormalization.n",
        "'six' does not hold one value for each channel",
    ),
    "convolution with a bias of another length": (
        PointKind.PRODUCT,
        model([node("Conv", "x w six", "c"), node("Conv", "c k", "y")], IMAGE),
        "Conv.c",
        "'six' does not hold one value for each channel",
    ),
    "bias that is a matrix": (
        PointKind.PRODUCT,
        model([MATMUL, node("Add", "m tall", "a"), node("MatMul", "a v", "y")], ROWS),
        "MatMul.m",
        "Add 'Add.a' reads 'm', and does not commute with factors",
    ),
    "tensor before the bias that something else reads": (
        PointKind.PRODUCT,
        model([MATMUL, node("Add", "m six", "a"), node("MatMul", "a v", "y"), node("Neg", "m", "z")], ROWS, "y z"),
        "MatMul.m",
        "Add 'Add.a' reads 'm', and does not commute with factors",
    ),
    "tensor before the bias that is an output": (
        PointKind.PRODUCT,
        model([MATMUL, node("Add", "m six", "a"), node("MatMul", "a v", "y")], ROWS, "y m"),
        "MatMul.m",
        "'m' is an output of the graph",
    ),
    "subtraction of a vector": (
        PointKind.PRODUCT,
        model([MATMUL, node("Sub", "m six", "a"), node("MatMul", "a v", "y")], ROWS),
        "MatMul.m",
        "Sub 'Sub.a' reads 'm', and does not commute with factors",
    ),
    "bias of a convolution as an Add": (
        PointKind.PRODUCT,
        model([CONV, node("Add", "c four", "a"), node("Conv", "a k", "y")], (2, 4, 4, 4)),
        "Conv.c",
        "Add 'Add.a' reads 'c', and does not commute with factors",
    ),
    "bias without a name": (
        PointKind.PRODUCT,
        model([MATMUL, node("Add", "m six", "-"), node("Neg", "x", "y")], ROWS),
        "MatMul.m",
        "Add 'Add.' reads 'm', and does not commute with factors",
    ),
}


@pytest.mark.parametrize(("kind", "proto", "label", "reason"), REASONS.values(), ids=list(REASONS))
def test_a_layer_without_a_joint_is_named_with_the_reason(kind, proto, label, reason):
    readers, reasons = found(proto, kind)
    assert reasons[label] == reason
    assert label.split(".")[1] not in readers


NEITHER = {
    "of a matrix": node("Mul", "x square", "n"),
    "of what is computed": node("Mul", "x x", "n"),
    "of a number": node("Mul", "x short", "n"),
    "by division": node("Div", "x scale", "n"),
    "without an operand": node("Mul", "- x", "n"),
}


@pytest.mark.parametrize("multiplication", NEITHER.values(), ids=list(NEITHER))
def test_other_multiplications_are_no_layers(multiplication):
    proto = model([multiplication, node("MatMul", "n u", "y")], (8, 8))
    assert found(proto, PointKind.NORM) == ({}, {})


@pytest.mark.parametrize("product", [node("MatMul", "x -", "n"), node("Einsum", "x square", "n", equation="ij,jk->ik")])
def test_other_products_are_no_layers(product):
    proto = model([product, node("MatMul", "n u", "y")], (8, 8))
    assert found(proto, PointKind.PRODUCT) == ({}, {"MatMul.y": "'y' is an output of the graph"})


def test_a_product_of_activations_is_no_layer():
    proto = model([node("MatMul", "x x", "m"), node("MatMul", "m u", "y")], (8, 8))
    assert found(proto, PointKind.PRODUCT) == ({}, {"MatMul.y": "'y' is an output of the graph"})


def test_each_kind_finds_its_own_layers():
    nodes = [node("LayerNormalization", "x scale", "n"), node("MatMul", "n u", "m"), node("MatMul", "m v", "y")]
    proto = model(nodes, ROWS)
    assert found(proto, PointKind.NORM) == ({"n": ("MatMul.m",)}, {})
    assert found(proto, PointKind.PRODUCT) == ({"m": ("MatMul.y",)}, {"MatMul.y": "'y' is an output of the graph"})


def returning(proto: onnx.ModelProto, name: str) -> onnx.ModelProto:
    """The model with an If whose branches return a tensor of the main graph."""
    info = helper.make_tensor_value_info(name, TensorProto.FLOAT, None)
    branch = helper.make_graph([], "branch", [], [info])
    copy = onnx.ModelProto()
    copy.CopyFrom(proto)
    copy.graph.initializer.append(numpy_helper.from_array(np.array(True), "flag"))
    copy.graph.node.append(helper.make_node("If", ["flag"], ["z"], then_branch=branch, else_branch=branch))
    copy.graph.output.append(helper.make_tensor_value_info("z", TensorProto.FLOAT, None))
    return copy


def test_a_tensor_before_the_bias_that_a_branch_returns_keeps_its_values():
    proto = model([MATMUL, node("Add", "m six", "a"), node("MatMul", "a v", "y")], ROWS)
    assert found(returning(proto, "m"), PointKind.PRODUCT)[1]["MatMul.m"] == "'m' is an output of the graph"


def test_a_bias_that_a_branch_adds_is_outside_of_the_joint():
    proto = model([MATMUL], ROWS, "")
    info = helper.make_tensor_value_info("a", TensorProto.FLOAT, None)
    branch = helper.make_graph([node("Add", "m six", "a")], "branch", [], [info])
    proto.graph.initializer.extend(
        [numpy_helper.from_array(weight("six"), "six"), numpy_helper.from_array(np.array(True), "flag")]
    )
    other = helper.make_graph([node("Neg", "x", "o")], "other", [], [onnx.ValueInfoProto(name="o", type=info.type)])
    proto.graph.node.append(helper.make_node("If", ["flag"], ["y"], then_branch=branch, else_branch=other))
    assert found(proto, PointKind.PRODUCT)[1]["MatMul.m"] == "a branch or loop body reads 'm'"


def test_layers_of_functions_are_left_out_and_those_of_bodies_have_their_scope():
    text = """<ir_version: 8, opset_import: ["": 17, "my": 1]>
    g (float[3,8] x, bool flag) => (float[3,4] y, float[3,6] z) <float[8,6] w> {
        z = my.Layer (x)
        y = If (flag) <
            then_branch = t () => (float[3,4] a) <float[8,4] u> { [inner] a = MatMul (x, u) },
            else_branch = e () => (float[3,4] b) <float[8,4] v> { [other] b = MatMul (x, v) }
        >
    }
    <domain: "my", opset_import: ["": 17]>
    Layer (p) => (q) { k = Constant <value = float[2,2] {1,2,3,4}> () q = MatMul (p, k) }
    """.replace(" <float[8,6] w>", "").replace("<float[8,4] u>", "<float[2,2] u = {1,2,3,4}>")
    text = text.replace("<float[8,4] v>", "<float[2,2] v = {1,2,3,4}>")
    points, alone = find_rescaling_points(ModelIndex.of(Model(onnx.parser.parse_model(text))), PointKind.PRODUCT)
    assert points == ()
    assert [(each.node, each.graph, each.op_type) for each in alone] == [
        ("inner", "y.then_branch", "MatMul"),
        ("other", "y.else_branch", "MatMul"),
    ]


def test_the_tensors_of_joints_are_those_that_readers_read():
    nodes = [
        CONV,
        node("Relu", "c", "r"),
        node("Conv", "r k", "y"),
        node("Flatten", "c", "f"),
        node("Gemm", "f h", "z"),
    ]
    points, _ = find_rescaling_points(ModelIndex.of(Model(model(nodes, IMAGE, "y z"))), PointKind.PRODUCT)
    assert [(value.name, layout) for value, layout in point_tensors(points)] == [
        ("r", ChannelLayout.FIRST),
        ("f", ChannelLayout.LAST),
    ]


BLOCKED: dict[str, tuple[onnx.ModelProto, str, str]] = {
    "nothing reads it": (model([CONV, node("Neg", "x", "y")], IMAGE), "Conv.c", "nothing reads 'c'"),
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
