"""Small networks of well-known shapes, in float: what exporters write, with few channels and random weights.

Nodes are called ``<output>.<operator>``. Weights keep the variance of what they multiply, so that ranges look like
those of a trained network.
"""

from collections.abc import Callable, Sequence
from math import prod

import numpy as np
import onnx

from support.engine_models import Net

TOKENS, WIDTH, HEADS = 32, 64, 2
HEAD = WIDTH // HEADS


class Network(Net):
    """A network under construction with the blocks that exporters write again and again."""

    def __init__(self, opset: int = 17) -> None:
        super().__init__(opset)
        self._random = np.random.default_rng(7)

    def model(self, inputs: dict[str, Sequence[int]]) -> onnx.ModelProto:
        """The network with output ``y``, whose shape is inferred; an input called ``ids`` holds integers."""
        model = super().model(inputs)
        for each in model.graph.input:
            if each.name == "ids":
                each.type.tensor_type.elem_type = onnx.TensorProto.INT64
        inferred = onnx.shape_inference.infer_shapes(model, strict_mode=True)
        model.graph.output[0].CopyFrom(inferred.graph.output[0])
        return model

    def weight(self, name: str, shape: Sequence[int], fan_in: int) -> str:
        """A random constant that keeps the variance of ``fan_in`` summands."""
        return self.constant(name, self._random.normal(0, fan_in**-0.5, shape).astype(np.float32))

    def number(self, name: str, value: float) -> str:
        """A scalar constant."""
        return self.constant(name, np.float32(value))

    def conv(self, x: str, y: str, shape: Sequence[int], *, stride: int = 1, group: int = 1) -> str:
        """A Conv with bias; ``shape`` is the weight's, padding keeps the extent."""
        spatial = len(shape) - 2
        inputs = [x, self.weight(f"{y}.weight", shape, prod(shape[1:])), self.weight(f"{y}.bias", shape[:1], 100)]
        pads = [extent // 2 for extent in shape[2:]] * 2
        return self.op("Conv", inputs, y, pads=pads, strides=[stride] * spatial, group=group)

    def relu(self, x: str) -> str:
        return self.op("Relu", [x], f"{x}_relu")

    def silu(self, x: str) -> str:
        return self.op("Mul", [x, self.op("Sigmoid", [x], f"{x}_gate")], f"{x}_silu")

    def gelu(self, x: str) -> str:
        """The exact form, from Erf."""
        inner = self.op("Erf", [self.op("Div", [x, self.number(f"{x}.root2", 2**0.5)], f"{x}_div")], f"{x}_erf")
        outer = self.op("Mul", [x, self.op("Add", [inner, self.number(f"{x}.one", 1)], f"{x}_shift")], f"{x}_mul")
        return self.op("Mul", [outer, self.number(f"{x}.half", 0.5)], f"{x}_gelu")

    def linear(self, x: str, y: str, rows: int, columns: int) -> str:
        """A MatMul and the Add of its bias."""
        product = self.op("MatMul", [x, self.weight(f"{y}.weight", (rows, columns), rows)], f"{y}_product")
        return self.op("Add", [self.weight(f"{y}.bias", (columns,), 100), product], y)

    def norm(self, x: str, y: str) -> str:
        ones, zeros = np.ones(WIDTH, np.float32), np.zeros(WIDTH, np.float32)
        inputs = [x, self.constant(f"{y}.scale", ones), self.constant(f"{y}.shift", zeros)]
        return self.op("LayerNormalization", inputs, y, axis=-1)

    def attention(self, x: str, y: str, mask: Callable[[str], str] | None = None, tokens: int = TOKENS) -> str:
        """Several heads: three projections, scaled scores, a mask, Softmax, and the output projection."""
        self.constant(f"{y}.heads", np.array([1, tokens, HEADS, HEAD]))
        parts = []
        for name, perm in (("q", [0, 2, 1, 3]), ("k", [0, 2, 3, 1]), ("v", [0, 2, 1, 3])):
            projected = self.linear(x, f"{y}_{name}", WIDTH, WIDTH)
            heads = self.op("Reshape", [projected, f"{y}.heads"], f"{y}_{name}_heads")
            parts.append(self.op("Transpose", [heads], f"{y}_{name}_t", perm=perm))
        query, key, value = parts
        scores = self.op("MatMul", [query, key], f"{y}_scores")
        scores = self.op("Div", [scores, self.number(f"{y}.root", HEAD**0.5)], f"{y}_scaled")
        weights = self.op("Softmax", [mask(scores) if mask is not None else scores], f"{y}_weights", axis=-1)
        mixed = self.op(
            "Transpose", [self.op("MatMul", [weights, value], f"{y}_mixed")], f"{y}_back", perm=[0, 2, 1, 3]
        )
        joined = self.op("Reshape", [mixed, self.constant(f"{y}.width", np.array([1, tokens, WIDTH]))], f"{y}_joined")
        return self.linear(joined, y, WIDTH, WIDTH)

    def mlp(self, x: str, y: str) -> str:
        return self.linear(self.gelu(self.linear(x, f"{y}_up", WIDTH, 4 * WIDTH)), y, 4 * WIDTH, WIDTH)


def resnet() -> onnx.ModelProto:
    """ResNet with bottleneck blocks: a 7 x 7 stem, a block with a downsampling branch and one without, a Gemm."""
    net = Network()
    x = net.op(
        "MaxPool",
        [net.relu(net.conv("x", "stem", (32, 3, 7, 7), stride=2))],
        "pool",
        kernel_shape=[2, 2],
        strides=[2, 2],
    )
    for block, stride in (("b1", 1), ("b2", 2), ("b3", 1)):
        wide = 32 if block == "b1" else 64
        inner = net.relu(net.conv(x, f"{block}_1", (16, wide, 1, 1)))
        inner = net.relu(net.conv(inner, f"{block}_2", (16, 16, 3, 3), stride=stride))
        inner = net.conv(inner, f"{block}_3", (64, 16, 1, 1))
        skip = x if block == "b3" else net.conv(x, f"{block}_skip", (64, wide, 1, 1), stride=stride)
        x = net.relu(net.op("Add", [inner, skip], f"{block}_sum"))
    flat = net.op("Flatten", [net.op("GlobalAveragePool", [x], "gap")], "flat")
    net.op("Gemm", [flat, net.weight("fc.weight", (20, 64), 64), net.weight("fc.bias", (20,), 100)], "y", transB=1)
    return net.model({"x": (1, 3, 32, 32)})


def mobilenet() -> onnx.ModelProto:
    """MobileNet V3: depthwise blocks with HardSwish, and squeeze-and-excite gates from 1 x 1 Convs on one pixel."""
    net = Network()
    x = net.op("HardSwish", [net.conv("x", "stem", (16, 3, 3, 3), stride=2)], "stem_act")
    for block, stride in (("b1", 1), ("b2", 2)):
        inner = net.op("HardSwish", [net.conv(x, f"{block}_1", (64, 16, 1, 1))], f"{block}_1_act")
        inner = net.op(
            "HardSwish", [net.conv(inner, f"{block}_2", (64, 1, 5, 5), stride=stride, group=64)], f"{block}_2_act"
        )
        pooled = net.op("GlobalAveragePool", [inner], f"{block}_pool")
        gate = net.relu(net.conv(pooled, f"{block}_squeeze", (16, 64, 1, 1)))
        gate = net.op("HardSigmoid", [net.conv(gate, f"{block}_excite", (64, 16, 1, 1))], f"{block}_gate", alpha=1 / 6)
        inner = net.conv(net.op("Mul", [inner, gate], f"{block}_gated"), f"{block}_3", (16, 64, 1, 1))
        x = net.op("Add", [inner, x], f"{block}_sum") if stride == 1 else inner
    flat = net.op("Flatten", [net.op("GlobalAveragePool", [x], "gap")], "flat")
    net.op("Gemm", [flat, net.weight("fc.weight", (20, 16), 16), net.weight("fc.bias", (20,), 100)], "y", transB=1)
    return net.model({"x": (1, 3, 32, 32)})


def yolo() -> onnx.ModelProto:
    """YOLO: SiLU blocks that split and join, pyramid pooling, an upsampled branch, two heads joined at the end."""
    net = Network()
    x = net.silu(net.conv(net.silu(net.conv("x", "stem", (16, 3, 3, 3), stride=2)), "down1", (32, 16, 3, 3), stride=2))
    fine = _split_and_join(net, x, "c2f")
    x = net.silu(net.conv(fine, "down2", (32, 32, 3, 3), stride=2))
    x = net.silu(net.conv(x, "sppf_in", (16, 32, 1, 1)))
    pools = [x]
    for index in range(3):
        pools.append(net.op("MaxPool", [pools[-1]], f"sppf_{index}", kernel_shape=[5, 5], pads=[2] * 4))
    coarse = net.silu(net.conv(net.op("Concat", pools, "sppf", axis=1), "sppf_out", (32, 64, 1, 1)))
    net.constant("factors", np.array([1, 1, 2, 2], np.float32))
    up = net.op("Resize", [coarse, "", "factors"], "up", mode="nearest")
    merged = net.silu(net.conv(net.op("Concat", [up, fine], "merge", axis=1), "merged", (32, 64, 1, 1)))
    net.constant("flat", np.array([1, 16, -1]))
    heads = [
        net.op("Reshape", [net.conv(each, f"head_{name}", (16, 32, 1, 1)), "flat"], f"boxes_{name}")
        for name, each in (("fine", merged), ("coarse", coarse))
    ]
    net.op("Sigmoid", [net.op("Concat", heads, "boxes", axis=2)], "y")
    return net.model({"x": (1, 3, 64, 64)})


def _split_and_join(net: Network, x: str, name: str) -> str:
    """The C2f block: half of the channels go through a bottleneck, and all halves are joined."""
    x = net.silu(net.conv(x, f"{name}_in", (32, 32, 1, 1)))
    first, second = f"{name}_first", f"{name}_second"
    net.constant(f"{name}.halves", np.array([16, 16]))
    net.nodes.append(onnx.helper.make_node("Split", [x, f"{name}.halves"], [first, second], f"{name}.Split", axis=1))
    inner = net.silu(net.conv(second, f"{name}_1", (16, 16, 3, 3)))
    inner = net.op("Add", [second, net.silu(net.conv(inner, f"{name}_2", (16, 16, 3, 3)))], f"{name}_sum")
    joined = net.op("Concat", [first, second, inner], f"{name}_joined", axis=1)
    return net.silu(net.conv(joined, f"{name}_out", (32, 48, 1, 1)))


def unet() -> onnx.ModelProto:
    """U-Net: two levels down with MaxPool, two up with ConvTranspose, joined with what lies on the same level."""
    net = Network()
    levels = []
    x, channels = "x", 1
    for level, wide in enumerate((16, 32, 64)):
        x = net.relu(net.conv(x, f"down{level}_1", (wide, channels, 3, 3)))
        x = net.relu(net.conv(x, f"down{level}_2", (wide, wide, 3, 3)))
        channels = wide
        if level < 2:
            levels.append((x, wide))
            x = net.op("MaxPool", [x], f"pool{level}", kernel_shape=[2, 2], strides=[2, 2])
    for level, (skip, wide) in reversed(list(enumerate(levels))):
        weight = net.weight(f"up{level}.weight", (channels, wide, 2, 2), channels)
        up = net.op("ConvTranspose", [x, weight], f"up{level}", strides=[2, 2])
        x = net.op("Concat", [skip, up], f"join{level}", axis=1)
        x = net.relu(net.conv(x, f"up{level}_1", (wide, 2 * wide, 3, 3)))
        channels = wide
    net.op("Sigmoid", [net.conv(x, "last", (1, 16, 1, 1))], "y")
    return net.model({"x": (1, 1, 32, 32)})


def bert() -> onnx.ModelProto:
    """BERT: embeddings, two encoder layers whose scores get a mask computed from an input, a pooler."""
    net = Network()
    net.constant("positions", np.arange(TOKENS))
    words = net.op("Gather", [net.weight("word_table", (100, WIDTH), 1), "ids"], "words")
    places = net.op("Gather", [net.weight("place_table", (TOKENS, WIDTH), 1), "positions"], "places")
    x = net.norm(net.op("Add", [words, places], "embedded"), "embedded_norm")
    kept = net.op("Unsqueeze", ["mask", net.constant("mask.axes", np.array([1, 2]))], "mask_wide")
    hidden = net.op("Sub", [net.number("mask.one", 1), kept], "mask_hidden")
    lowered = net.op("Mul", [hidden, net.number("mask.low", -1e4)], "mask_low")
    for layer in ("l1", "l2"):
        mixed = net.attention(x, f"{layer}_attention", lambda s, y=layer: net.op("Add", [s, lowered], f"{y}_masked"))
        x = net.norm(net.op("Add", [mixed, x], f"{layer}_sum1"), f"{layer}_norm1")
        x = net.norm(net.op("Add", [net.mlp(x, f"{layer}_mlp"), x], f"{layer}_sum2"), f"{layer}_norm2")
    first = net.op("Gather", [x, net.constant("zero", np.array(0))], "first", axis=1)
    pooled = [first, net.weight("pooler.weight", (WIDTH, WIDTH), WIDTH), net.weight("pooler.bias", (WIDTH,), 100)]
    net.op("Tanh", [net.op("Gemm", pooled, "pooled", transB=1)], "y")
    return net.model({"ids": (1, TOKENS), "mask": (1, TOKENS)})


def vit() -> onnx.ModelProto:
    """Vision transformer: 16 x 16 patches from a Conv, a class token, two pre-norm layers, a head."""
    net, tokens = Network(), 17
    weight = net.weight("patches.weight", (WIDTH, 3, 16, 16), 768)
    patches = net.op("Conv", ["x", weight, net.weight("patches.bias", (WIDTH,), 100)], "patches", strides=[16, 16])
    rows = net.op("Reshape", [patches, net.constant("rows.shape", np.array([1, WIDTH, -1]))], "rows")
    rows = net.op("Transpose", [rows], "rows_t", perm=[0, 2, 1])
    x = net.op("Concat", [net.weight("class_token", (1, 1, WIDTH), 1), rows], "sequence", axis=1)
    x = net.op("Add", [x, net.weight("places", (1, tokens, WIDTH), 1)], "placed")
    for layer in ("l1", "l2"):
        mixed = net.attention(net.norm(x, f"{layer}_norm1"), f"{layer}_attention", tokens=tokens)
        x = net.op("Add", [x, mixed], f"{layer}_sum1")
        x = net.op("Add", [x, net.mlp(net.norm(x, f"{layer}_norm2"), f"{layer}_mlp")], f"{layer}_sum2")
    first = net.op("Gather", [net.norm(x, "last_norm"), net.constant("zero", np.array(0))], "first", axis=1)
    net.op(
        "Gemm",
        [first, net.weight("head.weight", (20, WIDTH), WIDTH), net.weight("head.bias", (20,), 100)],
        "y",
        transB=1,
    )
    return net.model({"x": (1, 3, 64, 64)})


def gpt() -> onnx.ModelProto:
    """A decoder: causal mask by Where, two pre-norm layers, logits from the transposed table of embeddings."""
    net = Network()
    net.constant("visible", np.tri(TOKENS, dtype=bool))
    net.number("low", np.finfo(np.float32).min)
    table = net.weight("table", (100, WIDTH), 1)
    x = net.op("Gather", [table, "ids"], "words")
    x = net.op("Add", [x, net.weight("places", (1, TOKENS, WIDTH), 1)], "placed")
    for layer in ("l1", "l2"):
        mixed = net.attention(
            net.norm(x, f"{layer}_norm1"),
            f"{layer}_attention",
            lambda scores, y=layer: net.op("Where", ["visible", scores, "low"], f"{y}_masked"),
        )
        x = net.op("Add", [x, mixed], f"{layer}_sum1")
        x = net.op("Add", [x, net.mlp(net.norm(x, f"{layer}_norm2"), f"{layer}_mlp")], f"{layer}_sum2")
    net.op("MatMul", [net.norm(x, "last_norm"), net.op("Transpose", [table], "table_t", perm=[1, 0])], "y")
    return net.model({"ids": (1, TOKENS)})


def lstm() -> onnx.ModelProto:
    """Two recurrent layers between a projection and a classifier."""
    net = Network()
    x = net.linear("x", "projected", 40, 64)
    for layer in ("l1", "l2"):
        inputs = [x, net.weight(f"{layer}.weight", (1, 256, 64), 64), net.weight(f"{layer}.state", (1, 256, 64), 64)]
        states = net.op("LSTM", inputs, layer, hidden_size=64)
        x = net.op("Squeeze", [states, net.constant(f"{layer}.axis", np.array([1]))], f"{layer}_states")
    net.linear(x, "y", 64, 16)
    return net.model({"x": (10, 1, 40)})


def speech() -> onnx.ModelProto:
    """One-dimensional Convs, plain, grouped and depthwise, with the attention of einsum at the end."""
    net = Network()
    x = net.gelu(net.conv("x", "c1", (32, 1, 9), stride=4))
    x = net.gelu(net.conv(x, "c2", (32, 8, 3), group=4))
    x = net.silu(net.conv(x, "c3", (32, 1, 15), group=32))
    x = net.op("Transpose", [net.conv(x, "c4", (64, 32, 1))], "rows", perm=[0, 2, 1])
    parts = [
        net.op("Einsum", [x, net.weight(f"{name}.weight", (64, 2, 32), 64)], name, equation="btc,chd->bthd")
        for name in "qkv"
    ]
    weights = net.op("Softmax", [net.op("Einsum", parts[:2], "scores", equation="bihd,bjhd->bhij")], "weights", axis=-1)
    mixed = net.op("Einsum", [weights, parts[2]], "mixed", equation="bhij,bjhd->bihd")
    net.op("Einsum", [mixed, net.weight("out.weight", (2, 32, 64), 64)], "y", equation="bihd,hdc->bic")
    return net.model({"x": (1, 1, 256)})


NETWORKS: dict[str, Callable[[], onnx.ModelProto]] = {
    "bert": bert,
    "gpt": gpt,
    "lstm": lstm,
    "mobilenet": mobilenet,
    "resnet": resnet,
    "speech": speech,
    "unet": unet,
    "vit": vit,
    "yolo": yolo,
}
"""Every network, by the name of its family."""
