"""A language model's decoder of any size with random float16 weights in external data, written layer by layer.

Pre-norm, attention of many heads with a causal mask, a gated SiLU feed-forward network, and a head of its own. Weights
are normal with the deviation that keeps products of order one. No more than one matrix is in memory at a time.
"""

from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

import numpy as np
import numpy.typing as npt
import onnx
from onnx import TensorProto, helper, numpy_helper

PAGE = 4096
MASKED = -1e4


@dataclass(frozen=True, slots=True)
class Size:
    """How large the decoder is.

    Attributes:
        layers: Layers; one of the default width has 67.1 million parameters.
        width: Channels between layers.
        heads: Heads of the attention.
        inner: Channels in the feed-forward network.
        vocabulary: Tokens.
        tokens: Tokens of a sample.
    """

    layers: int
    width: int = 2048
    heads: int = 16
    inner: int = 8192
    vocabulary: int = 32000
    tokens: int = 32

    @property
    def parameters(self) -> int:
        """Elements of all matrices."""
        layer = 4 * self.width**2 + 3 * self.width * self.inner
        return self.layers * layer + 2 * self.vocabulary * self.width


class Decoder:
    """Writes one decoder; the same seed gives the same weights."""

    def __init__(self, size: Size, seed: int = 0) -> None:
        self.size = size
        self._random = np.random.default_rng(seed)
        self._nodes: list[onnx.NodeProto] = []
        self._tensors: list[TensorProto] = []
        self._file: IO[bytes]

    def write(self, path: Path) -> int:
        """Write ``path`` and ``<path>.data``: ``input_ids`` [batch, tokens] to ``logits``; return the bytes of both."""
        size = self.size
        with path.with_name(path.name + ".data").open("wb") as self._file:
            x = self._node(
                "Gather", "embed", self._matrix("embed.weight", (size.vocabulary, size.width), 1), "input_ids"
            )
            mask = np.triu(np.full((size.tokens, size.tokens), MASKED, np.float16), 1)
            hidden = self._constant("mask", mask)
            for number in range(size.layers):
                x = self._layer(f"layer{number}", x, hidden)
            self._linear("logits", self._norm("norm", x), size.width, size.vocabulary)
        taken = helper.make_tensor_value_info("input_ids", TensorProto.INT64, ["batch", size.tokens])
        made = helper.make_tensor_value_info("logits", TensorProto.FLOAT16, ["batch", size.tokens, size.vocabulary])
        graph = helper.make_graph(self._nodes, "decoder", [taken], [made], self._tensors)
        model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10)
        path.write_bytes(model.SerializeToString(deterministic=True))
        return path.stat().st_size + path.with_name(path.name + ".data").stat().st_size

    def _layer(self, name: str, x: str, mask: str) -> str:
        size = self.size
        normed = self._norm(f"{name}.norm1", x)
        query, key, value = (self._heads(f"{name}.{part}", normed, part == "k") for part in "qkv")
        scores = self._node("MatMul", f"{name}.scores", query, key)
        root = self._constant(f"{name}.root", np.array((size.width // size.heads) ** -0.5, np.float16))
        scores = self._node("Mul", f"{name}.scaled", scores, root)
        weights = self._node("Softmax", f"{name}.softmax", self._node("Add", f"{name}.masked", scores, mask), axis=-1)
        mixed = self._node(
            "Transpose", f"{name}.swap", self._node("MatMul", f"{name}.mix", weights, value), perm=[0, 2, 1, 3]
        )
        joined = self._reshaped(f"{name}.join", mixed, [0, 0, size.width])
        x = self._node("Add", f"{name}.skip1", x, self._linear(f"{name}.o", joined, size.width, size.width))
        normed = self._norm(f"{name}.norm2", x)
        gate = self._linear(f"{name}.gate", normed, size.width, size.inner)
        gate = self._node("Mul", f"{name}.silu", gate, self._node("Sigmoid", f"{name}.sigmoid", gate))
        inner = self._node("Mul", f"{name}.gated", gate, self._linear(f"{name}.up", normed, size.width, size.inner))
        return self._node("Add", f"{name}.skip2", x, self._linear(f"{name}.down", inner, size.inner, size.width))

    def _heads(self, name: str, x: str, transposed: bool) -> str:
        split = self._reshaped(
            f"{name}.split", self._linear(name, x, self.size.width, self.size.width), [0, 0, self.size.heads, -1]
        )
        return self._node("Transpose", f"{name}.swap", split, perm=[0, 2, 3, 1] if transposed else [0, 2, 1, 3])

    def _linear(self, name: str, x: str, inputs: int, outputs: int) -> str:
        return self._node("MatMul", name, x, self._matrix(f"{name}.weight", (inputs, outputs), inputs**-0.5))

    def _norm(self, name: str, x: str) -> str:
        gain = np.exp(self._random.normal(0, 0.25, self.size.width)).astype(np.float16)
        return self._node("LayerNormalization", name, x, self._constant(f"{name}.scale", gain), axis=-1, epsilon=1e-5)

    def _reshaped(self, name: str, x: str, shape: list[int]) -> str:
        return self._node("Reshape", name, x, self._constant(f"{name}.shape", np.array(shape, np.int64)))

    def _node(self, op_type: str, name: str, *inputs: str, **attributes: Any) -> str:
        output = "logits" if name == "logits" else f"{name}.out"
        self._nodes.append(helper.make_node(op_type, inputs, [output], name=name, **attributes))
        return output

    def _constant(self, name: str, array: npt.NDArray[np.generic]) -> str:
        self._tensors.append(numpy_helper.from_array(array, name))
        return name

    def _matrix(self, name: str, shape: tuple[int, int], deviation: float) -> str:
        values = self._random.standard_normal(shape, np.float32)
        values *= np.float32(deviation)
        offset = -(-self._file.tell() // PAGE) * PAGE
        self._file.seek(offset)
        self._file.write(values.astype(np.float16).data)
        tensor = TensorProto(name=name, data_type=TensorProto.FLOAT16, dims=shape)
        tensor.data_location = TensorProto.EXTERNAL
        for key, value in (("location", Path(self._file.name).name), ("offset", offset), ("length", 2 * values.size)):
            tensor.external_data.add(key=key, value=str(value))
        self._tensors.append(tensor)
        return name
