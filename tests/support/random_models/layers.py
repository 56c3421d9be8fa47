"""The operators that random models are made of: each reads tensors of the graph and adds one or more.

The first extent of a tensor is the batch, which may be dynamic: no layer changes it.
"""

from collections.abc import Callable
from dataclasses import dataclass
from math import prod

import numpy as np
from onnx import TensorProto, helper

from support.random_models.growing import Growing, Tensor

LARGEST = 512
"""Elements of the largest tensor that a layer enlarges."""

COMPUTED = frozenset({TensorProto.FLOAT, TensorProto.FLOAT16})
MOVED = COMPUTED | {TensorProto.BFLOAT16}
"""Types of tensors. ONNX Runtime's CPU provider has no arithmetic in bfloat16, only operators that move values."""


@dataclass(frozen=True, slots=True)
class Layer:
    """One operator: what it can read, and how it is added.

    Attributes:
        add: Adds it to the graph behind a tensor.
        ranks: Ranks of tensors that it reads.
        types: Element types that it reads.
        opset: The first version that has it.
    """

    add: Callable[[Growing, Tensor], None]
    ranks: tuple[int, ...]
    types: frozenset[int]
    opset: int

    def reads(self, tensor: Tensor) -> bool:
        return len(tensor.shape) in self.ranks and tensor.type in self.types


LAYERS: dict[str, Layer] = {}
"""Every layer by its name. Hypothesis shrinks to the first."""

PRODUCTS = frozenset({"conv", "conv_transpose", "gemm", "matmul"})

Adder = Callable[[Growing, Tensor], None]


def layer(*ranks: int, types: frozenset[int] = COMPUTED, opset: int = 13) -> Callable[[Adder], Adder]:
    def register(add: Adder) -> Adder:
        LAYERS[add.__name__] = Layer(add, ranks or (2, 3, 4), types, opset)
        return add

    return register


def grow(net: Growing, name: str) -> None:
    """Add a layer behind one of the tensors; nothing where none fits."""
    chosen = LAYERS[name]
    fitting = [tensor for tensor in reversed(net.tensors) if chosen.reads(tensor)]
    if fitting and net.opset >= chosen.opset:
        chosen.add(net, net.pick(*fitting))


def grow_any(net: Growing, number: int) -> None:
    """Add one of the layers that fit a tensor; products, which are what is quantized, three times as often."""
    here = [name for name, each in LAYERS.items() if net.opset >= each.opset and any(map(each.reads, net.tensors))]
    choices = here + [name for name in here if name in PRODUCTS] * 2
    grow(net, choices[number % len(choices)])


def _made(net: Growing, name: str, like: Tensor, shape: tuple[int, ...] | None = None) -> None:
    net.tensors.append(Tensor(name, like.shape if shape is None else shape, like.type))


def _partner(net: Growing, x: Tensor) -> Tensor:
    """Return a tensor of the same shape and type, often another one."""
    return net.pick(*(each for each in net.tensors if (each.shape, each.type) == (x.shape, x.type)))


@layer()
def relu(net: Growing, x: Tensor) -> None:
    _made(net, net.node("Relu", [net.read(x)]), x)


@layer(4)
def conv(net: Growing, x: Tensor) -> None:
    channels = x.shape[1]
    groups = net.pick(*(count for count in (1, 2, channels) if channels % count == 0))
    out, size = groups * net.pick(1, 2), net.pick(1, 3)
    weight = net.weight((out, channels // groups, size, size), x.type, 0, channels // groups * size * size)
    inputs = [net.read(x), weight] + ([net.bias(out, x.type)] if net.chance(2) else [])
    _made(net, net.node("Conv", inputs, group=groups, pads=[size // 2] * 4), x, (x.shape[0], out, *x.shape[2:]))


@layer(4)
def conv_transpose(net: Growing, x: Tensor) -> None:
    batch, channels, height, width = x.shape
    groups = net.pick(*(count for count in (1, 2) if channels % count == 0))
    each, stride = net.pick(1, 2), net.pick(1, 2)
    if prod(x.shape) * stride * stride > LARGEST:
        return
    weight = net.weight((channels, each, stride, stride), x.type, 1, channels // groups)
    inputs = [net.read(x), weight] + ([net.bias(groups * each, x.type)] if net.chance(2) else [])
    made = net.node("ConvTranspose", inputs, group=groups, strides=[stride] * 2)
    _made(net, made, x, (batch, groups * each, height * stride, width * stride))


@layer(2)
def gemm(net: Growing, x: Tensor) -> None:
    out, transposed = net.pick(2, 3, 4), net.pick(0, 1)
    shape = (out, x.shape[1]) if transposed else (x.shape[1], out)
    inputs = [net.read(x), net.weight(shape, x.type, 1 - transposed, x.shape[1])]
    inputs += [net.bias(out, x.type)] if net.chance(2) else []
    _made(net, net.node("Gemm", inputs, transB=transposed), x, (x.shape[0], out))


@layer()
def matmul(net: Growing, x: Tensor) -> None:
    out = net.pick(2, 4)
    weight = net.weight((x.shape[-1], out), x.type, 1, x.shape[-1])
    _made(net, net.node("MatMul", [net.read(x), weight]), x, (*x.shape[:-1], out))


@layer(3, 4)
def matmul_of_activations(net: Growing, x: Tensor) -> None:
    other = _partner(net, x)
    order = [*range(len(x.shape) - 2), len(x.shape) - 1, len(x.shape) - 2]
    turned = net.node("Transpose", [other.name], perm=order)
    _made(net, turned, x, tuple(x.shape[axis] for axis in order))
    made = net.node("MatMul", [net.read(x), net.read(net.tensors[-1])])
    _made(net, made, x, (*x.shape[:-1], x.shape[-2]))


@layer()
def add(net: Growing, x: Tensor) -> None:
    _made(net, net.node("Add", [net.read(x), net.read(_partner(net, x))]), x)


@layer()
def multiply(net: Growing, x: Tensor) -> None:
    _made(net, net.node("Mul", [net.read(x), net.read(_partner(net, x))]), x)


@layer()
def add_constant(net: Growing, x: Tensor) -> None:
    constant = net.stored(net.pick((x.shape[-1],), ()), x.type)
    _made(net, net.node(net.pick("Add", "Mul", "Sub"), [net.read(x), constant]), x)


@layer()
def clip(net: Growing, x: Tensor) -> None:
    bounds = net.pick((0.0, 6.0), (-1.0, 1.0), (None, 1.5), (0.0, None))
    names = ["" if bound is None else net.constant(bound, x.type) for bound in bounds]
    _made(net, net.node("Clip", [net.read(x), *(names if names[1] else names[:1])]), x)


@layer()
def unary(net: Growing, x: Tensor) -> None:
    newer = [name for name, first in (("HardSwish", 14), ("Gelu", 20)) if net.opset >= first]
    op_type = net.pick("Sigmoid", "Tanh", "Neg", "LeakyRelu", "HardSigmoid", "Erf", "Abs", *newer)
    _made(net, net.node(op_type, [net.read(x)]), x)


@layer()
def softmax(net: Growing, x: Tensor) -> None:
    _made(net, net.node("Softmax", [net.read(x)], axis=net.pick(-1, 1)), x)


@layer(opset=17)
def layer_normalization(net: Growing, x: Tensor) -> None:
    inputs = [net.read(x), net.stored(x.shape[-1:], x.type), net.stored(x.shape[-1:], x.type)]
    _made(net, net.node("LayerNormalization", inputs, axis=-1), x)


@layer(3, 4)
def batch_normalization(net: Growing, x: Tensor) -> None:
    vectors = [net.stored((x.shape[1],), x.type) for _ in range(3)]
    variance = net.constant(net.rng.uniform(0.5, 2, x.shape[1]), x.type, "var")
    _made(net, net.node("BatchNormalization", [net.read(x), *vectors, variance]), x)


@layer(4)
def pool(net: Growing, x: Tensor) -> None:
    op_type, size = net.pick("MaxPool", "AveragePool"), net.pick(1, 2, 3)
    if size > min(x.shape[2:]):
        return
    made = net.node(op_type, [net.read(x)], kernel_shape=[size, size])
    _made(net, made, x, (*x.shape[:2], *(extent - size + 1 for extent in x.shape[2:])))


@layer(4)
def global_pool(net: Growing, x: Tensor) -> None:
    _made(net, net.node(net.pick("GlobalAveragePool", "GlobalMaxPool"), [net.read(x)]), x, (*x.shape[:2], 1, 1))


@layer(3, 4)
def reduce_mean(net: Growing, x: Tensor) -> None:
    kept = net.pick(0, 1)
    axes = {"axes": [-1]} if net.opset < 18 else {}
    inputs = [net.read(x)] if axes else [net.read(x), net.constant([-1])]
    _made(net, net.node("ReduceMean", inputs, keepdims=kept, **axes), x, (*x.shape[:-1], 1)[: len(x.shape) - 1 + kept])


@layer(types=MOVED)
def concat(net: Growing, x: Tensor) -> None:
    parts = [x, *(_partner(net, x) for _ in range(net.pick(1, 2)))]
    if len(parts) * prod(x.shape) <= LARGEST:
        shape = (x.shape[0], len(parts) * x.shape[1], *x.shape[2:])
        _made(net, net.node("Concat", [net.read(each) for each in parts], axis=1), x, shape)


@layer(types=MOVED)
def split(net: Growing, x: Tensor) -> None:
    axis = len(x.shape) - 1
    if x.shape[axis] < 2:
        return
    lengths = (1, x.shape[axis] - 1)
    names = net.node_of(2, "Split", [net.read(x), net.constant(lengths)], axis=axis)
    for name, length in zip(names, lengths, strict=True):
        _made(net, name, x, (*x.shape[:axis], length))


@layer(types=MOVED)
def slice_(net: Growing, x: Tensor) -> None:
    axis = net.pick(*range(1, len(x.shape)))
    if x.shape[axis] < 2:
        return
    made = net.node("Slice", [net.read(x), net.constant([1]), net.constant([x.shape[axis]]), net.constant([axis])])
    _made(net, made, x, (*x.shape[:axis], x.shape[axis] - 1, *x.shape[axis + 1 :]))


@layer(3, 4, types=MOVED)
def flatten(net: Growing, x: Tensor) -> None:
    shape = (x.shape[0], prod(x.shape[1:]))
    made = net.node("Flatten", [net.read(x)]) if net.chance(2) else _reshaped(net, x, (0, -1))
    _made(net, made, x, shape)


@layer(2, 3, types=MOVED)
def unflatten(net: Growing, x: Tensor) -> None:
    if len(x.shape) == 2:
        _made(net, _reshaped(net, x, (0, 1, x.shape[1])), x, (x.shape[0], 1, x.shape[1]))
    else:
        _made(net, net.node("Unsqueeze", [net.read(x), net.constant([1])]), x, (x.shape[0], 1, *x.shape[1:]))


def _reshaped(net: Growing, x: Tensor, shape: tuple[int, ...]) -> str:
    return net.node("Reshape", [net.read(x), net.constant(shape)])


@layer(3, 4, types=MOVED)
def transpose(net: Growing, x: Tensor) -> None:
    order = [0, *net.pick((2, 1), (1, 2))] if len(x.shape) == 3 else [0, *net.pick((2, 3, 1), (3, 1, 2), (1, 3, 2))]
    _made(net, net.node("Transpose", [net.read(x)], perm=order), x, tuple(x.shape[axis] for axis in order))


@layer(types=MOVED)
def gather(net: Growing, x: Tensor) -> None:
    axis = len(x.shape) - 1
    indices = [0, x.shape[axis] - 1, 0]
    _made(net, net.node("Gather", [net.read(x), net.constant(indices)], axis=axis), x, (*x.shape[:axis], 3))


@layer()
def embedding(net: Growing, x: Tensor) -> None:
    ids = next((each for each in net.inputs if each.type.tensor_type.elem_type == TensorProto.INT64), None)
    name = ids.name if ids else net.add_input((x.shape[0], 3), TensorProto.INT64, "ids").name
    _made(net, net.node("Gather", [net.weight((2, 4), x.type, 0), name]), x, (x.shape[0], 3, 4))


@layer(4)
def pad(net: Growing, x: Tensor) -> None:
    if prod(x.shape[:2]) * (x.shape[2] + 2) * (x.shape[3] + 2) > LARGEST:
        return
    pads = net.constant([0, 0, 1, 1, 0, 0, 1, 1])
    filling = [net.constant(net.pick(0.0, 0.5), x.type)] if net.chance(2) else []
    made = net.node("Pad", [net.read(x), pads, *filling], mode="constant" if filling else net.pick("constant", "edge"))
    _made(net, made, x, (*x.shape[:2], x.shape[2] + 2, x.shape[3] + 2))


@layer(4)
def resize(net: Growing, x: Tensor) -> None:
    if prod(x.shape) * 4 > LARGEST:
        return
    scales = net.constant(np.array([1, 1, 2, 2]), TensorProto.FLOAT)
    made = net.node("Resize", [net.read(x), "", scales], mode=net.pick("nearest", "linear"))
    _made(net, made, x, (*x.shape[:2], 2 * x.shape[2], 2 * x.shape[3]))


@layer(types=MOVED)
def cast(net: Growing, x: Tensor) -> None:
    to = net.pick(*(each for each in (TensorProto.FLOAT, TensorProto.FLOAT16, TensorProto.BFLOAT16) if each != x.type))
    net.tensors.append(Tensor(net.node("Cast", [net.read(x)], to=to), x.shape, to))


@layer(types=MOVED)
def identity(net: Growing, x: Tensor) -> None:
    _made(net, net.node("Identity", [net.read(x)]), x)


@layer()
def branches(net: Growing, x: Tensor) -> None:
    """An If whose bodies read tensors of the graph around it; the last layer of a body keeps the shape."""
    if net.depth > 1:
        return
    flag = net.flag()
    bodies = {}
    for name in ("then_branch", "else_branch"):
        with net.body() as nodes:
            net.tensors = [x]
            for inner in net.pick((), ("matmul",), ("conv",), ("add", "branches")):
                grow(net, inner)
            fitting = [each for each in net.tensors if each.shape == x.shape]
            result = net.node(net.pick("Relu", "Neg"), [net.read(net.pick(*reversed(fitting)))])
            bodies[name] = helper.make_graph(nodes, name, [], [net.info(Tensor(result, x.shape, x.type))])
    _made(net, net.node("If", [flag], **bodies), x)
