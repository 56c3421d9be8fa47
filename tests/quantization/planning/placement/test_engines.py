"""What TensorRT for RTX makes of the pairs: every quantized node runs in an int8 or fp8 kernel.

The layer dump is made before just-in-time compilation; that a kernel reads codes and no float ones besides its
constants is what it proves.
"""

import numpy as np
import pytest
from support.engine_models import IMAGE, ROWS, Net
from support.layer_dump import input_types, kernels_of, multiplied_types
from support.placed import place

pytestmark = pytest.mark.builder


def conv_chain():
    net = Net(17)
    net.op("Conv", ["x", net.float_weight("w1", (16, 16, 3, 3)), net.float_weight("b1", (16,))], "c1", pads=[1] * 4)
    net.op("MaxPool", [net.op("Relu", ["c1"], "r1")], "p", kernel_shape=[2, 2], strides=[2, 2])
    net.op("Conv", ["p", net.float_weight("w2", (16, 1, 3, 3))], "c2", pads=[1] * 4, group=16)
    net.op("Mul", ["c2", net.op("Sigmoid", ["c2"], "s")], "m")
    net.op("Conv", ["m", net.float_weight("w3", (7, 16, 1, 1))], "y")
    return net.model(IMAGE), ["c1.Conv", "c2.Conv", "y.Conv"]


def residual(*, downsample):
    net = Net(17)
    width, strides = (32, [2, 2]) if downsample else (16, [1, 1])
    net.op("Relu", [net.op("Conv", ["x", net.float_weight("w0", (16, 16, 3, 3))], "c0", pads=[1] * 4)], "r0")
    net.op("Conv", ["r0", net.float_weight("w1", (width, 16, 3, 3))], "c1", pads=[1] * 4, strides=strides)
    net.op("Conv", [net.op("Relu", ["c1"], "r1"), net.float_weight("w2", (width, width, 3, 3))], "c2", pads=[1] * 4)
    skip = "r0"
    if downsample:
        skip = net.op("Conv", ["r0", net.float_weight("wd", (width, 16, 1, 1))], "cd", strides=strides)
    net.op("Relu", [net.op("Add", ["c2", skip], "a")], "ra")
    net.op("Conv", ["ra", net.float_weight("w3", (16, width, 1, 1))], "y")
    convs = ["c0.Conv", "c1.Conv", "c2.Conv", "y.Conv"]
    return net.model(IMAGE), [*convs, "cd.Conv"] if downsample else convs


def mlp():
    net = Net(17)
    net.op("MatMul", ["x", net.float_weight("w1", (64, 128))], "m")
    net.op("Relu", [net.op("Add", ["m", net.float_weight("b1", (128,))], "a")], "r")
    net.op("Gemm", ["r", net.float_weight("w2", (32, 128)), net.float_weight("b2", (32,))], "y", transB=1)
    return net.model(ROWS), ["m.MatMul", "y.Gemm"]


def transposed_weight():
    net = Net(17)
    net.op("MatMul", ["x", net.op("Transpose", [net.float_weight("w", (128, 64))], "t", perm=[1, 0])], "y")
    return net.model(ROWS), ["y.MatMul"]


def reshaped_weight():
    net = Net(17)
    net.constant("shape", np.array([64, 32]))
    net.op("MatMul", ["x", net.op("Reshape", [net.float_weight("w", (32, 64)), "shape"], "t")], "y")
    return net.model(ROWS), ["y.MatMul"]


def constant_on_the_left():
    net = Net(17)
    net.op("MatMul", [net.float_weight("w", (32, 8)), "x"], "y")
    return net.model(ROWS), ["y.MatMul"]


def attention():
    net = Net(17)
    net.constant("heads", np.array([1, 16, 4, 16]))
    for name, perm in (("q", [0, 2, 1, 3]), ("k", [0, 2, 3, 1]), ("v", [0, 2, 1, 3])):
        net.op("MatMul", ["x", net.float_weight(f"w{name}", (64, 64))], f"{name}m")
        net.op("Transpose", [net.op("Reshape", [f"{name}m", "heads"], f"{name}r")], name, perm=perm)
    net.op("Div", [net.op("MatMul", ["q", "k"], "scores"), net.constant("root", np.float32(4))], "scaled")
    mask = net.constant("mask", np.triu(np.full((16, 16), -1e4, np.float32), 1))
    net.op("Softmax", [net.op("Add", ["scaled", mask], "masked")], "weights", axis=-1)
    net.op("Transpose", [net.op("MatMul", ["weights", "v"], "mixed")], "back", perm=[0, 2, 1, 3])
    net.op("Reshape", ["back", net.constant("width", np.array([1, 16, 64]))], "joined")
    net.op("MatMul", ["joined", net.float_weight("wo", (64, 64))], "y")
    names = ["qm.MatMul", "km.MatMul", "vm.MatMul", "scores.MatMul", "mixed.MatMul", "y.MatMul"]
    return net.model({"x": (1, 16, 64)}), names


def shapes_of_conv():
    net = Net(17)
    net.op("Conv", ["x", net.float_weight("w1", (16, 16, 3))], "one", pads=[1, 1])
    net.constant("cube", np.array([1, 16, 4, 4, 4]))
    net.op("Conv", [net.op("Reshape", ["one", "cube"], "r"), net.float_weight("w3", (16, 16, 3, 3, 3))], "three")
    net.op("Conv", ["three", net.float_weight("wg", (16, 4, 1, 1, 1))], "grouped", group=4)
    net.op("Conv", ["grouped", net.float_weight("wd", (16, 1, 1, 1, 1))], "y", group=16)
    return net.model({"x": (1, 16, 64)}), ["one.Conv", "three.Conv", "grouped.Conv", "y.Conv"]


def two_activations():
    net = Net(17)
    net.op("Gemm", ["x", net.op("Relu", ["x"], "r")], "g", transB=1)
    net.op("MatMul", ["g", net.op("Sigmoid", ["x"], "s")], "y")
    return net.model(ROWS), ["g.Gemm", "y.MatMul"]


def batched_weights():
    net = Net(17)
    net.op("MatMul", ["x", net.float_weight("w1", (4, 64, 32))], "m")
    net.op("MatMul", ["m", net.float_weight("w2", (32,))], "y")
    return net.model({"x": (4, 8, 64)}), ["m.MatMul", "y.MatMul"]


def einsum():
    net = Net(17)
    for name in "qk":
        net.op("Einsum", ["x", net.float_weight(f"w{name}", (64, 2, 32))], name, equation="btc,chd->bthd")
    net.op("Einsum", ["q", "k"], "scores", equation="bihd,bjhd->bhij")
    net.op("Einsum", ["scores", net.float_weight("wo", (16, 24))], "y", equation="bhij,jk->bhik")
    return net.model({"x": (1, 16, 64)}), ["q.Einsum", "k.Einsum", "scores.Einsum", "y.Einsum"]


def shared_weights():
    net = Net(17)
    net.float_weight("w", (64, 64))
    net.op("MatMul", ["x", "w"], "a")
    net.op("MatMul", [net.op("Tanh", ["a"], "t"), "w"], "b")
    net.op("Gemm", ["b", "w"], "y", transB=1)
    return net.model(ROWS), ["a.MatMul", "b.MatMul", "y.Gemm"]


def joined():
    net = Net(17)
    for name in "ab":
        net.op("Relu", [net.op("Conv", ["x", net.float_weight(f"w{name}", (16, 16, 3, 3))], f"c{name}")], f"r{name}")
    net.op("Concat", ["ra", "rb"], "k", axis=1)
    net.op("Conv", ["k", net.float_weight("w", (16, 32, 1, 1))], "y")
    return net.model(IMAGE), ["ca.Conv", "cb.Conv", "y.Conv"]


def squeeze_and_excite():
    net = Net(17)
    net.op("HardSwish", [net.op("Conv", ["x", net.float_weight("w0", (32, 16, 1, 1))], "c0")], "h")
    net.op("Conv", [net.op("GlobalAveragePool", ["h"], "p"), net.float_weight("w1", (16, 32, 1, 1))], "c1")
    net.op("Conv", [net.op("Relu", ["c1"], "r"), net.float_weight("w2", (32, 16, 1, 1))], "c2")
    net.op("Mul", ["h", net.op("HardSigmoid", ["c2"], "g")], "m")
    net.op("Conv", ["m", net.float_weight("w3", (16, 32, 1, 1))], "y")
    return net.model(IMAGE), ["c0.Conv", "c1.Conv", "c2.Conv", "y.Conv"]


NETWORKS = {
    "batched weights": batched_weights(),
    "convolutions": shapes_of_conv(),
    "einsum": einsum(),
    "joined branches": joined(),
    "shared weights": shared_weights(),
    "squeeze and excite": squeeze_and_excite(),
    "two activations": two_activations(),
    "conv chain": conv_chain(),
    "residual": residual(downsample=False),
    "residual with downsampling": residual(downsample=True),
    "mlp": mlp(),
    "transposed weight": transposed_weight(),
    "reshaped weight": reshaped_weight(),
    "constant on the left": constant_on_the_left(),
    "attention": attention(),
}


CODES = {"int8": "Int8", "float8e4m3fn": "FP8"}
"""What the layer dump calls the formats."""


@pytest.mark.parametrize("number_format", CODES)
@pytest.mark.parametrize("name", NETWORKS)
def test_quantized_nodes_run_in_kernels_of_their_format(name, number_format, oracle, tmp_path):
    model, nodes = NETWORKS[name]
    verdict = oracle.judge(place(model, tmp_path, number_format=number_format), (89,))
    assert verdict.accepted, verdict.message
    found = {node: multiplied_types(verdict.layers, node) for node in nodes}
    assert found == {node: {CODES[number_format]} for node in nodes}


@pytest.mark.parametrize("name", ["attention", "conv chain", "einsum", "residual"])
def test_without_pairs_they_run_in_float(name, oracle):
    model, nodes = NETWORKS[name]
    layers = oracle.judge(model).layers
    assert {node: multiplied_types(layers, node) for node in nodes} == {node: {"Float"} for node in nodes}


@pytest.mark.slow(reason="builds several engines")
@pytest.mark.parametrize("number_format", CODES)
def test_the_skip_branch_of_a_residual_block_is_read_as_codes(number_format, oracle, tmp_path):
    model, _ = NETWORKS["residual"]
    layers = oracle.judge(place(model, tmp_path, number_format=number_format), (89,)).layers
    kernels = kernels_of(layers, "a.Add", "Add")
    codes = CODES[number_format]
    assert [set(input_types(kernel)) for kernel in kernels] == [{"Float", codes}]  # the Conv's sums, and its input
