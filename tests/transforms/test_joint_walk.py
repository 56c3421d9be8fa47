"""Tensors are followed to the products that read them, through operators that commute with factors, and no others."""

import onnx
import pytest
from support.layers_and_joints import CONV, IMAGE, MATMUL, found, model, node

from qdqtool.graph.index.model_index import ModelIndex
from qdqtool.graph.model import Model
from qdqtool.transforms.joints import JointKind, find_joints

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
    readers, reasons = found(proto, JointKind.PRODUCT)
    assert reasons[label] == reason
    assert label.split(".")[1] not in readers


def readers_of(nodes, outputs="y"):
    (joint,), _ = find_joints(ModelIndex.of(Model(model(nodes, IMAGE, outputs))), JointKind.PRODUCT)
    return [(each.weight.node.label, each.tensor.name, each.layout.name, each.repeat) for each in joint.readers]


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


def test_a_matmul_might_read_another_axis():
    proto = model([CONV, node("ReduceMean", "c", "p", axes=[2, 3], keepdims=0), node("MatMul", "p q", "y")], IMAGE)
    reason = found(proto, JointKind.PRODUCT)[1]["Conv.c"]
    assert reason == "'MatMul.y' reads 'p' with its channels on another axis"


@pytest.mark.parametrize("count", [31, 32])
def test_a_row_of_at_most_31_operators_is_followed(count):
    relus = [node("Relu", "c" if not number else f"r{number - 1}", f"r{number}") for number in range(count)]
    proto = model([CONV, *relus, node("Conv", f"r{count - 1} k", "y")], IMAGE)
    readers, reasons = found(proto, JointKind.PRODUCT)
    assert readers == ({"c": ("Conv.y",)} if count == 31 else {})
    assert reasons.get("Conv.c") == (None if count == 31 else "the way to its readers is too long")
