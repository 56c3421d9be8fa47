"""What TensorRT for RTX makes of the pairs: every quantized node runs in an int8 kernel.

The layer dump is made before just-in-time compilation; that a kernel reads int8 tensors and no float ones besides its
constants is what it proves.
"""

import re

import numpy as np
import pytest
from support.engine_models import IMAGE, ROWS, Net
from support.placed import place
from support.trt_verdict import TrtOracle

pytestmark = pytest.mark.builder


@pytest.fixture(scope="module")
def oracle():
    judge = TrtOracle()
    yield judge
    judge.close()


def kernels_of(layers, node, wanted=r"(?i)corr|gemm"):
    """The lines of the layer dump that name ``node`` and are of a wanted kind."""
    lines = [line for line in layers.splitlines() if f"[ONNX Layer: {node}]" in line]
    return [line for line in lines if re.search(wanted, line.partition("Inputs: [")[0])]


def input_types(kernel):
    """Data types of what a kernel reads, constants not counted."""
    inputs = kernel.partition("Inputs: [")[2].partition("Constants: [")[0].partition("Outputs: [")[0]
    return re.findall(r"Datatype: (\w+)", inputs)


def multiplied_types(layers, node):
    """Data types that the kernel multiplying for ``node`` reads."""
    kernels = kernels_of(layers, node)
    assert kernels, f"no kernel of {node} in:\n{layers}"
    return {kind for kernel in kernels for kind in input_types(kernel)}


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


NETWORKS = {
    "conv chain": conv_chain(),
    "residual": residual(downsample=False),
    "residual with downsampling": residual(downsample=True),
    "mlp": mlp(),
    "transposed weight": transposed_weight(),
    "reshaped weight": reshaped_weight(),
    "constant on the left": constant_on_the_left(),
    "attention": attention(),
}


@pytest.mark.parametrize("name", NETWORKS)
def test_quantized_nodes_run_in_int8_kernels(name, oracle, tmp_path):
    model, nodes = NETWORKS[name]
    verdict = oracle.judge(place(model, tmp_path))
    assert verdict.accepted, verdict.message
    assert {node: multiplied_types(verdict.layers, node) for node in nodes} == {node: {"Int8"} for node in nodes}


def test_without_pairs_they_run_in_float(oracle):
    model, nodes = NETWORKS["conv chain"]
    layers = oracle.judge(model).layers
    assert {node: multiplied_types(layers, node) for node in nodes} == {node: {"Float"} for node in nodes}


def test_the_skip_branch_of_a_residual_block_is_read_as_int8(oracle, tmp_path):
    model, _ = NETWORKS["residual"]
    kernels = kernels_of(oracle.judge(place(model, tmp_path)).layers, "a.Add", "Add")
    assert [sorted(input_types(kernel)) for kernel in kernels] == [["Float", "Int8"]]  # the Conv's sums, and its input
