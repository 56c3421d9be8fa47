"""Attention whose queries, keys and values one product makes, cut apart in the ways that exporters write."""

import numpy as np
import onnx
from onnx import TensorProto, helper

from support.engine_models import Net

TOKENS, HEADS, HEAD = 32, 4, 16
WIDTH = HEADS * HEAD
BATCH = {"x": (1, TOKENS, WIDTH)}


def split(net, whole, heads=(HEADS, HEADS, HEADS)):
    """GPT-2: one Split of the channels, then a Reshape and a Transpose for each part."""
    lengths = net.constant("lengths", np.array([count * HEAD for count in heads]))
    net.nodes.append(helper.make_node("Split", [whole, lengths], ["a", "b", "c"], name="cut", axis=-1))
    heads = net.constant("heads", np.array([1, TOKENS, -1, HEAD]))
    rows = [net.op("Reshape", [part, heads], f"{part}r") for part in "abc"]
    return [net.op("Transpose", [row], f"{row}t", perm=[0, 2, 1, 3]) for row in rows]


def slices(net, whole):
    """A Slice for each part."""
    axis, heads = net.constant("axis", np.array([2])), net.constant("heads", np.array([1, TOKENS, HEADS, HEAD]))
    ends = [net.constant(f"end{index}", np.array([index * WIDTH])) for index in range(4)]
    parts = [net.op("Slice", [whole, ends[index], ends[index + 1], axis], f"part{index}") for index in range(3)]
    rows = [net.op("Reshape", [part, heads], f"{part}r") for part in parts]
    return [net.op("Transpose", [row], f"{row}t", perm=[0, 2, 1, 3]) for row in rows]


def gather(net, whole):
    """timm: a new first axis for the three, and a Gather for each."""
    net.op("Reshape", [whole, net.constant("heads", np.array([1, TOKENS, 3, HEADS, HEAD]))], "three")
    net.op("Transpose", ["three"], "first", perm=[2, 0, 3, 1, 4])
    return [net.op("Gather", ["first", net.constant(f"at{i}", np.array(i))], f"part{i}", axis=0) for i in range(3)]


def unbind(net, whole):
    """The same by torch's ``unbind``: Split and Squeeze."""
    net.op("Reshape", [whole, net.constant("heads", np.array([1, TOKENS, 3, HEADS, HEAD]))], "three")
    net.op("Transpose", ["three"], "first", perm=[2, 0, 3, 1, 4])
    return _unbound(net)


def interleaved(net, whole):
    """GPT-NeoX: queries, keys and values of one head stand next to each other."""
    net.op("Reshape", [whole, net.constant("heads", np.array([1, TOKENS, HEADS, 3, HEAD]))], "three")
    net.op("Transpose", ["three"], "first", perm=[3, 0, 2, 1, 4])
    return _unbound(net)


def _unbound(net):
    net.nodes.append(helper.make_node("Split", ["first"], ["a", "b", "c"], name="cut", axis=0))
    first = net.constant("first_axis", np.array([0]))
    return [net.op("Squeeze", [part, first], f"{part}s") for part in "abc"]


CUTS = {"split": split, "slices": slices, "gather": gather, "unbind": unbind, "interleaved": interleaved}


def with_matmul(net, *, transposed=False, width=3 * WIDTH):
    """Product and bias, as Linear becomes them."""
    shape = (width, WIDTH) if transposed else (WIDTH, width)
    weight = net.constant("w", _normal(net, shape) / np.float32(8))
    weight = net.op("Transpose", [weight], "wt", perm=[1, 0]) if transposed else weight
    return net.op("Add", [net.op("MatMul", ["x", weight], "all"), net.constant("bias", _normal(net, width))], "sum")


def with_gemm(net, *, transposed=False, bias=(3 * WIDTH,)):
    """Product and bias of rows, as Conv1D of GPT-2 becomes them."""
    shape = (3 * WIDTH, WIDTH) if transposed else (WIDTH, 3 * WIDTH)
    operands = [net.constant("w", _normal(net, shape) / np.float32(8)), net.constant("bias", _normal(net, bias))]
    rows = net.op("Reshape", ["x", net.constant("flat", np.array([TOKENS, WIDTH]))], "rows")
    net.op("Gemm", [rows, *operands], "all", transB=int(transposed))
    return net.op("Reshape", ["all", net.constant("apart", np.array([1, TOKENS, 3 * WIDTH]))], "sum")


def _normal(net, shape):
    return np.random.default_rng(len(net.nodes)).normal(size=shape).astype(np.float32)


def joint_attention(cut=split, project=with_matmul, opset=17, **how) -> onnx.ModelProto:
    """``x`` to ``y``: the product called ``all``, an attention of four heads, a product behind it."""
    net = Net(opset)
    q, k, v = cut(net, project(net, **how))
    net.op("MatMul", [q, net.op("Transpose", [k], "kt", perm=[0, 1, 3, 2])], "scores")
    net.op("Softmax", [net.op("Mul", ["scores", net.constant("root", np.float32(0.25))], "scaled")], "weights", axis=-1)
    net.op("Transpose", [net.op("MatMul", ["weights", v], "mixed")], "back", perm=[0, 2, 1, 3])
    net.op("Reshape", ["back", net.constant("width", np.array([1, TOKENS, WIDTH]))], "joined")
    net.op("MatMul", ["joined", net.constant("wo", _normal(net, (WIDTH, WIDTH)) / np.float32(8))], "y")
    model = net.model(BATCH)
    model.graph.output[0].CopyFrom(helper.make_tensor_value_info("y", TensorProto.FLOAT, BATCH["x"]))
    return model
