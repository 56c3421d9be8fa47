"""A pre-norm transformer block: as a torch module to train, and as the ONNX nodes that exporters write for it."""

from dataclasses import dataclass

import numpy as np
import torch
from torch import nn
from torch.nn import functional

from sample_models.graph_writer import GraphWriter

MASKED = -1e4
"""Added to the scores of positions that must not be seen; exporters prefer it to minus infinity."""


class Block(nn.Module):
    """``x + attention(norm(x))``, then ``x + mlp(norm(x))`` with an exact GELU."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.query, self.key, self.value = (nn.Linear(width, width) for _ in range(3))
        self.project = nn.Linear(width, width)
        self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def forward(self, x: torch.Tensor, mask: torch.Tensor | None = None) -> torch.Tensor:
        """Shape [batch, tokens, width] in and out; ``mask`` [tokens, tokens] is added to the attention scores."""
        normed = self.norm1(x)
        query, key, value = (self._split(layer(normed)) for layer in (self.query, self.key, self.value))
        scores = query @ key.transpose(2, 3) / query.shape[-1] ** 0.5
        weights = (scores if mask is None else scores + mask).softmax(dim=-1)
        x = x + self.project((weights @ value).transpose(1, 2).flatten(2))
        return x + self.down(functional.gelu(self.up(self.norm2(x))))

    def _split(self, x: torch.Tensor) -> torch.Tensor:
        return x.unflatten(2, (self.heads, -1)).transpose(1, 2)


def causal_mask(tokens: int) -> torch.Tensor:
    """Float32 [tokens, tokens]: 0 where a position may look, :data:`MASKED` where that would be the future."""
    return torch.full((tokens, tokens), MASKED).triu(diagonal=1)


@dataclass(frozen=True, slots=True)
class BlockWriter:
    """Writes blocks into a graph.

    Attributes:
        writer: The graph.
        heads: Attention heads.
        mask: Initializer that is added to the attention scores, or None.
    """

    writer: GraphWriter
    heads: int
    mask: str | None = None

    def block(self, name: str, block: Block, x: str) -> str:
        """Add the nodes of one block; returns its output tensor."""
        x = self._node("Add", f"{name}.attention.skip", self._attention(f"{name}.attention", block, x), x)
        return self._node("Add", f"{name}.mlp.skip", self._mlp(f"{name}.mlp", block, x), x)

    def norm(self, name: str, norm: nn.LayerNorm, x: str) -> str:
        """LayerNormalization over the last dimension."""
        scale = self._constant(f"{name}.scale", norm.weight)
        bias = self._constant(f"{name}.bias", norm.bias)
        return self._node("LayerNormalization", name, x, scale, bias, axis=-1, epsilon=norm.eps)

    def linear(self, name: str, layer: nn.Linear, x: str) -> str:
        """MatMul with the weight stored as [inputs, outputs], then Add of the bias."""
        weight = self._constant(f"{name}.weight", layer.weight.T)
        product = self._node("MatMul", f"{name}.matmul", x, weight)
        return self._node("Add", f"{name}.add", product, self._constant(f"{name}.bias", layer.bias))

    def _attention(self, name: str, block: Block, x: str) -> str:
        x = self.norm(f"{name}.norm", block.norm1, x)
        query = self._split(f"{name}.query", block.query, x, [0, 2, 1, 3])
        key = self._split(f"{name}.key", block.key, x, [0, 2, 3, 1])
        value = self._split(f"{name}.value", block.value, x, [0, 2, 1, 3])
        head_width = block.query.out_features // self.heads
        scores = self._node("MatMul", f"{name}.scores", query, key)
        scores = self._node("Div", f"{name}.scale", scores, self._number(f"{name}.sqrt_width", head_width**0.5))
        if self.mask is not None:
            scores = self._node("Add", f"{name}.mask", scores, self.mask)
        weights = self._node("Softmax", f"{name}.softmax", scores, axis=-1)
        mixed = self._node("MatMul", f"{name}.mix", weights, value)
        mixed = self._node("Transpose", f"{name}.swap", mixed, perm=[0, 2, 1, 3])
        shape = self.writer.constant(f"{name}.join.shape", np.array([0, 0, block.query.out_features], np.int64))
        return self.linear(f"{name}.project", block.project, self._node("Reshape", f"{name}.join", mixed, shape))

    def _split(self, name: str, layer: nn.Linear, x: str, order: list[int]) -> str:
        shape = self.writer.constant(f"{name}.split.shape", np.array([0, 0, self.heads, -1], np.int64))
        split = self._node("Reshape", f"{name}.split", self.linear(name, layer, x), shape)
        return self._node("Transpose", f"{name}.swap", split, perm=order)

    def _mlp(self, name: str, block: Block, x: str) -> str:
        hidden = self.linear(f"{name}.up", block.up, self.norm(f"{name}.norm", block.norm2, x))
        return self.linear(f"{name}.down", block.down, self._gelu(f"{name}.gelu", hidden))

    def _gelu(self, name: str, x: str) -> str:
        scaled = self._node("Div", f"{name}.div", x, self._number(f"{name}.sqrt2", 2**0.5))
        shifted = self._node(
            "Add", f"{name}.add", self._node("Erf", f"{name}.erf", scaled), self._number(f"{name}.one", 1.0)
        )
        product = self._node("Mul", f"{name}.mul", x, shifted)
        return self._node("Mul", f"{name}.half", product, self._number(f"{name}.one_half", 0.5))

    def _node(self, op_type: str, name: str, *inputs: str, **attributes: object) -> str:
        return self.writer.node(op_type, name, *inputs, **attributes)

    def _constant(self, name: str, parameter: torch.Tensor) -> str:
        return self.writer.constant(name, parameter.detach().numpy())

    def _number(self, name: str, value: float) -> str:
        return self.writer.constant(name, np.array(value, np.float32))
