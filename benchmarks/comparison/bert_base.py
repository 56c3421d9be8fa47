"""An encoder of BERT-base size with random weights: 12 layers of width 768, 12 heads, post-norm, GELU, attention mask.

Nodes are those that exporters write for opset 17. Weights are normal with the deviation that keeps products of order
one, gains of the LayerNormalizations spread as trained ones do, so that channels differ in range.
"""

from dataclasses import dataclass
from pathlib import Path

import numpy as np
import onnx

from sample_models.graph_writer import GraphWriter, float_value, int64_value

MASKED = -1e4


@dataclass(frozen=True, slots=True)
class Size:
    """How large the encoder is."""

    layers: int = 12
    width: int = 768
    heads: int = 12
    vocabulary: int = 30522
    positions: int = 512


class Encoder:
    """Writes one encoder; the same seed gives the same weights."""

    def __init__(self, size: Size, seed: int) -> None:
        self.size = size
        self.random = np.random.default_rng(seed)
        self.graph = GraphWriter("bert_base", "Encoder of BERT-base size with random weights")

    def write(self, path: Path, tokens: int) -> onnx.ModelProto:
        """Write the model: ``input_ids`` and ``attention_mask`` [batch, tokens] to ``hidden``, wider by width."""
        mask = self._mask()
        x = self._embeddings(tokens)
        for index in range(1, self.size.layers + 1):
            x = self._layer(f"layer{index}", x, mask)
        taken = [int64_value(name, ["batch", tokens]) for name in ("input_ids", "attention_mask")]
        return self.graph.save(path, taken, float_value("hidden", ["batch", tokens, self.size.width]), x)

    def _mask(self) -> str:
        shape = self.graph.constant("mask.shape", np.array([0, 1, 1, -1], np.int64))
        row = self.graph.node("Reshape", "mask.row", "attention_mask", shape)
        kept = self.graph.node("Cast", "mask.float", row, to=onnx.TensorProto.FLOAT)
        hidden = self.graph.node("Sub", "mask.hidden", self._number("mask.one", 1), kept)
        return self.graph.node("Mul", "mask", hidden, self._number("mask.low", MASKED))

    def _embeddings(self, tokens: int) -> str:
        words = self._normal("embeddings.word", (self.size.vocabulary, self.size.width), 0.05)
        places = self._normal("embeddings.position", (1, self.size.positions, self.size.width), 0.02)
        ends = [
            self.graph.constant(f"position.{word}", np.array([at], np.int64))
            for word, at in (("start", 0), ("end", tokens), ("axis", 1))
        ]
        word = self.graph.node("Gather", "embeddings.gather", words, "input_ids")
        place = self.graph.node("Slice", "embeddings.place", places, *ends)
        return self._norm("embeddings.norm", self.graph.node("Add", "embeddings.add", word, place))

    def _layer(self, name: str, x: str, mask: str) -> str:
        attended = self._attention(f"{name}.attention", x, mask)
        x = self._norm(f"{name}.attention.norm", self.graph.node("Add", f"{name}.attention.skip", attended, x))
        inner = self._gelu(f"{name}.gelu", self._linear(f"{name}.up", x, self.size.width, 4 * self.size.width))
        down = self._linear(f"{name}.down", inner, 4 * self.size.width, self.size.width)
        return self._norm(f"{name}.norm", self.graph.node("Add", f"{name}.skip", down, x))

    def _attention(self, name: str, x: str, mask: str) -> str:
        query = self._heads(f"{name}.query", x, [0, 2, 1, 3])
        key = self._heads(f"{name}.key", x, [0, 2, 3, 1])
        value = self._heads(f"{name}.value", x, [0, 2, 1, 3])
        scores = self.graph.node("MatMul", f"{name}.scores", query, key)
        root = self._number(f"{name}.root", (self.size.width // self.size.heads) ** 0.5)
        scores = self.graph.node("Div", f"{name}.scale", scores, root)
        scores = self.graph.node("Add", f"{name}.masked", scores, mask)
        mixed = self.graph.node(
            "MatMul", f"{name}.mix", self.graph.node("Softmax", f"{name}.softmax", scores, axis=-1), value
        )
        mixed = self.graph.node("Transpose", f"{name}.swap", mixed, perm=[0, 2, 1, 3])
        shape = self.graph.constant(f"{name}.join.shape", np.array([0, 0, self.size.width], np.int64))
        joined = self.graph.node("Reshape", f"{name}.join", mixed, shape)
        return self._linear(f"{name}.project", joined, self.size.width, self.size.width)

    def _heads(self, name: str, x: str, order: list[int]) -> str:
        shape = self.graph.constant(f"{name}.split.shape", np.array([0, 0, self.size.heads, -1], np.int64))
        split = self.graph.node(
            "Reshape", f"{name}.split", self._linear(name, x, self.size.width, self.size.width), shape
        )
        return self.graph.node("Transpose", f"{name}.swap", split, perm=order)

    def _linear(self, name: str, x: str, inputs: int, outputs: int) -> str:
        weight = self._normal(f"{name}.weight", (inputs, outputs), inputs**-0.5)
        bias = self._normal(f"{name}.bias", (outputs,), 0.1)
        return self.graph.node("Add", f"{name}.add", self.graph.node("MatMul", f"{name}.matmul", x, weight), bias)

    def _norm(self, name: str, x: str) -> str:
        gain = np.exp(self.random.normal(0, 0.25, self.size.width)).astype(np.float32)
        names = self.graph.constant(f"{name}.scale", gain), self._normal(f"{name}.bias", (self.size.width,), 0.1)
        return self.graph.node("LayerNormalization", name, x, *names, axis=-1, epsilon=1e-12)

    def _gelu(self, name: str, x: str) -> str:
        scaled = self.graph.node("Div", f"{name}.div", x, self._number(f"{name}.sqrt2", 2**0.5))
        error = self.graph.node("Erf", f"{name}.erf", scaled)
        shifted = self.graph.node("Add", f"{name}.add", error, self._number(f"{name}.one", 1))
        product = self.graph.node("Mul", f"{name}.mul", x, shifted)
        return self.graph.node("Mul", f"{name}.half", product, self._number(f"{name}.one_half", 0.5))

    def _normal(self, name: str, shape: tuple[int, ...], deviation: float) -> str:
        values = self.random.standard_normal(shape, np.float32) * np.float32(deviation)
        return self.graph.constant(name, values)

    def _number(self, name: str, value: float) -> str:
        return self.graph.constant(name, np.array(value, np.float32))
