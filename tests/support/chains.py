"""Random chains of layers, with channels that have uneven ranges."""

import numpy as np
import onnx
from hypothesis import strategies as st
from onnx import helper

from support.small import make_model

SIZE = 6


def _weights(rng: np.random.Generator, shape: tuple[int, ...], uneven: bool) -> np.ndarray:
    weight = rng.normal(size=shape)
    if uneven:
        weight *= np.exp2(rng.uniform(-4, 4, (shape[0],) + (1,) * (len(shape) - 1)))
    return weight.astype(np.float32)


class _Chain:
    def __init__(self, seed: int) -> None:
        self.rng = np.random.default_rng(seed)
        self.nodes: list[onnx.NodeProto] = []
        self.weights: dict[str, np.ndarray] = {}
        self.last, self.channels = "x", 3

    def add(self, op: str, *inputs: str, **attributes: object) -> None:
        name = f"n{len(self.nodes)}"
        self.nodes.append(helper.make_node(op, [self.last, *inputs], [f"{name}.out"], name=name, **attributes))
        self.last = f"{name}.out"

    def vector(self, values: np.ndarray, what: str) -> str:
        name = f"n{len(self.nodes)}.{what}"
        self.weights[name] = values
        return name

    def layer(self, kind: str) -> None:
        rng, before = self.rng, self.channels
        match kind:
            case "conv":
                self.channels = int(rng.integers(2, 7))
                shape, groups, op = (self.channels, before, 3, 3), 1, "Conv"
            case "depthwise":
                shape, groups, op = (before, 1, 3, 3), before, "Conv"
            case "grouped":
                self.channels = 2 * before
                shape, groups, op = (2 * before, 1, 1, 1), before, "Conv"
            case _:
                self.channels = int(rng.integers(2, 7))
                shape, groups, op = (before, self.channels, 3, 3), 1, "ConvTranspose"
        weight = self.vector(_weights(rng, shape, uneven=True), "w")
        bias = [self.vector(rng.normal(size=self.channels).astype(np.float32), "b")] if rng.random() < 0.7 else []
        pads = [shape[2] // 2] * 4
        self.add(op, weight, *bias, group=groups, pads=pads)

    def between(self, kind: str) -> None:
        match kind:
            case "LeakyRelu":
                self.add(kind, alpha=0.1)
            case "PRelu":
                slope = self.rng.uniform(0, 0.5, (self.channels, 1, 1)).astype(np.float32)
                self.add(kind, self.vector(slope, "slope"))
            case "MaxPool" | "AveragePool":
                self.add(kind, kernel_shape=[3, 3], pads=[1, 1, 1, 1])
            case "Relu" | "Identity":
                self.add(kind)

    def head(self) -> None:
        self.add("Flatten")
        features = self.channels * SIZE * SIZE
        self.add("Gemm", self.vector(self.rng.normal(size=(4, features)).astype(np.float32), "w"), transB=1)


LAYERS = st.sampled_from(["conv", "depthwise", "grouped", "transposed"])
BETWEEN = st.sampled_from(["", "Relu", "LeakyRelu", "PRelu", "MaxPool", "AveragePool", "Identity"])


@st.composite
def chains(draw: st.DrawFn) -> onnx.ModelProto:
    """x[2,3,6,6] through two to five layers, most with an operator behind them, and sometimes a Gemm at the end."""
    chain = _Chain(draw(st.integers(0, 2**20)))
    for kind in draw(st.lists(LAYERS, min_size=2, max_size=5)):
        chain.layer(kind)
        chain.between(draw(BETWEEN))
    if draw(st.booleans()):
        chain.head()
    chain.nodes[-1].output[0] = "y"
    shape = (2, 4) if chain.nodes[-1].op_type == "Gemm" else (2, chain.channels, SIZE, SIZE)
    return make_model(chain.nodes, {"x": (2, 3, SIZE, SIZE)}, {"y": shape}, chain.weights)
