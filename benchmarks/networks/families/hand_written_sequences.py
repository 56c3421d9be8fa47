"""Networks on sequences, graphs and tables that no package of the zoo brings."""

import math

import numpy as np
import torch
from torch import nn
from torch.nn.utils import parametrizations

from benchmarks.networks.families.blocks import RmsNorm, SwiGlu
from benchmarks.networks.network import DYNAMO, SCRIPT, Network, Sample, normal, tokens

WIDTH, HEADS, GROUPS, HEAD = 128, 4, 2, 32
"""Of the decoder: its width, heads of queries, heads of keys and values, and the width of a head."""

LAYERS, VOCABULARY, PAST = 2, 32000, 12


class _Tcn(nn.Module):
    """A temporal network whose convolutions have normalized weights."""

    def __init__(self) -> None:
        super().__init__()
        layers, inner = list[nn.Module](), 16
        for dilation in (1, 2, 4, 8):
            padding = nn.ConstantPad1d((2 * dilation, 0), 0.0)
            layer = parametrizations.weight_norm(nn.Conv1d(inner, 64, 3, dilation=dilation))
            layers.append(nn.Sequential(padding, layer, nn.ReLU()))
            inner = 64
        self.layers, self.skip, self.last = nn.ModuleList(layers), nn.Conv1d(16, 64, 1), nn.Linear(64, 10)

    def forward(self, signal: torch.Tensor) -> torch.Tensor:
        x = self.layers[0](signal) + self.skip(signal)
        for layer in self.layers[1:]:
            x = x + layer(x)
        return self.last(x[:, :, -1])


class _Standardized(nn.Module):
    """Weight standardization and GroupNormalization, computed in the graph."""

    def __init__(self) -> None:
        super().__init__()
        self.weights = nn.ParameterList(nn.Parameter(torch.randn(64, inner, 3)) for inner in (16, 64, 64))
        self.norms, self.last = nn.ModuleList(nn.GroupNorm(8, 64) for _ in range(3)), nn.Linear(64, 10)

    def forward(self, signal: torch.Tensor) -> torch.Tensor:
        x = signal
        for weight, norm in zip(self.weights, self.norms, strict=True):
            centred = weight - weight.mean((1, 2), keepdim=True)
            scaled = centred / centred.square().mean((1, 2), keepdim=True).sqrt()
            x = norm(nn.functional.conv1d(x, scaled / math.sqrt(weight[0].numel()), padding=1)).relu()
        return self.last(x.mean(2))


class _Recurrent(nn.Module):
    """A recurrent layer in both directions between convolutions and a classifier."""

    def __init__(self, layer: type[nn.RNNBase]) -> None:
        super().__init__()
        self.conv = nn.Conv1d(16, 48, 5, padding=2)
        self.layer = layer(48, 32, batch_first=True, bidirectional=True)
        self.last = nn.Linear(64, 10)

    def forward(self, signal: torch.Tensor) -> torch.Tensor:
        x, *_ = self.layer(self.conv(signal).relu().transpose(1, 2))
        return self.last(x)


class _Conformer(nn.Module):
    """A block of a speech encoder: feed-forward, attention, gated and depthwise convolution."""

    def __init__(self) -> None:
        super().__init__()
        self.inner, self.norms = nn.Linear(40, 96), nn.ModuleList(nn.LayerNorm(96) for _ in range(4))
        self.forwards = nn.ModuleList(
            nn.Sequential(nn.Linear(96, 192), nn.SiLU(), nn.Linear(192, 96)) for _ in range(2)
        )
        self.qkv, self.out = nn.Linear(96, 288), nn.Linear(96, 96)
        self.gate, self.depth = nn.Conv1d(96, 192, 1), nn.Conv1d(96, 96, 7, padding=3, groups=96)
        self.norm, self.point = nn.BatchNorm1d(96), nn.Conv1d(96, 96, 1)

    def forward(self, features: torch.Tensor) -> torch.Tensor:
        x = self.inner(features)
        x = x + 0.5 * self.forwards[0](self.norms[0](x))
        shape = (x.shape[0], -1, 4, 24)
        q, k, v = (part.reshape(shape).transpose(1, 2) for part in self.qkv(self.norms[1](x)).chunk(3, -1))
        x = x + self.out(((q @ k.transpose(-1, -2)) / 24**0.5).softmax(-1).matmul(v).transpose(1, 2).flatten(2))
        y = nn.functional.glu(self.gate(self.norms[2](x).transpose(1, 2)), 1)
        x = x + self.point(nn.functional.silu(self.norm(self.depth(y)))).transpose(1, 2)
        return x + 0.5 * self.forwards[1](self.norms[3](x))


class _Decoder(nn.Module):
    """A language model that takes and gives a cache of keys and values for each layer.

    Rotary positions, fewer heads of keys than of queries, gated feed-forward layers, and an embedding that is the last
    product too.
    """

    def __init__(self, *, tied: bool = True, vocabulary: int = VOCABULARY) -> None:
        super().__init__()
        self.table = nn.Embedding(vocabulary, WIDTH)
        self.blocks = nn.ModuleList(_DecoderBlock() for _ in range(LAYERS))
        self.norm, self.last = RmsNorm(WIDTH), nn.Linear(WIDTH, vocabulary, bias=False)
        if tied:
            self.last.weight = self.table.weight

    def forward(self, input_ids: torch.Tensor, *past: torch.Tensor) -> tuple[torch.Tensor, ...]:
        x, kept = self.table(input_ids), list[torch.Tensor]()
        for number, block in enumerate(self.blocks):
            x, key, value = block(x, past[2 * number], past[2 * number + 1])
            kept += [key, value]
        return self.last(self.norm(x)), *kept


class _DecoderBlock(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.norms, self.forward_layer = nn.ModuleList(RmsNorm(WIDTH) for _ in range(2)), SwiGlu(WIDTH, 256)
        self.q, self.out = nn.Linear(WIDTH, HEADS * HEAD, bias=False), nn.Linear(HEADS * HEAD, WIDTH, bias=False)
        self.k, self.v = (nn.Linear(WIDTH, GROUPS * HEAD, bias=False) for _ in range(2))
        self.register_buffer("rates", 10000.0 ** -(torch.arange(0, HEAD, 2) / HEAD))

    def forward(self, x: torch.Tensor, keys: torch.Tensor, values: torch.Tensor) -> tuple[torch.Tensor, ...]:
        y, before, count = self.norms[0](x), keys.shape[2], x.shape[1]
        angles = torch.arange(before, before + count, dtype=torch.float32)[:, None] * self.rates
        q = self._rotated(self._heads(self.q(y), HEADS), angles)
        keys = torch.cat([keys, self._rotated(self._heads(self.k(y), GROUPS), angles)], 2)
        values = torch.cat([values, self._heads(self.v(y), GROUPS)], 2)
        all_keys, all_values = (each.repeat_interleave(HEADS // GROUPS, 1) for each in (keys, values))
        scores = q @ all_keys.transpose(-1, -2) / HEAD**0.5
        later = torch.arange(before + count)[None] > torch.arange(before, before + count)[:, None]
        mixed = scores.masked_fill(later, -1e4).softmax(-1) @ all_values
        x = x + self.out(mixed.transpose(1, 2).reshape(1, count, -1))
        return x + self.forward_layer(self.norms[1](x)), keys, values

    @staticmethod
    def _heads(x: torch.Tensor, count: int) -> torch.Tensor:
        return x.reshape(1, -1, count, HEAD).transpose(1, 2)

    @staticmethod
    def _rotated(x: torch.Tensor, angles: torch.Tensor) -> torch.Tensor:
        low, high = x.chunk(2, -1)
        return torch.cat([low * angles.cos() - high * angles.sin(), high * angles.cos() + low * angles.sin()], -1)


class _EinsumExperts(nn.Module):
    """A mixture in which every token visits every expert, weighted by a router, with einsum."""

    def __init__(self) -> None:
        super().__init__()
        self.router = nn.Linear(64, 4, bias=False)
        self.up, self.down = (nn.Parameter(torch.randn(shape) / 8) for shape in ((4, 64, 128), (4, 128, 64)))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        share = self.router(x).softmax(-1)
        inner = torch.einsum("bsd,edf->besf", x, self.up).relu()
        return torch.einsum("besf,efd,bse->bsd", inner, self.down, share)


class _GatheredExperts(nn.Module):
    """A mixture in which the weights of the chosen expert are gathered for each token."""

    def __init__(self) -> None:
        super().__init__()
        self.router = nn.Linear(64, 4, bias=False)
        self.up, self.down = (nn.Parameter(torch.randn(shape) / 8) for shape in ((4, 64, 128), (4, 128, 64)))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        share, chosen = self.router(x).softmax(-1).max(-1)
        inner = (x[:, :, None] @ self.up[chosen]).relu()
        return x + share[..., None] * (inner @ self.down[chosen])[:, :, 0]


class _Recommender(nn.Module):
    """Embeddings of sparse features, their products with each other, and two towers of dense layers."""

    def __init__(self) -> None:
        super().__init__()
        self.tables = nn.ModuleList(nn.Embedding(1000, 32) for _ in range(4))
        self.bottom = nn.Sequential(nn.Linear(13, 64), nn.ReLU(), nn.Linear(64, 32), nn.ReLU())
        self.top = nn.Sequential(nn.Linear(57, 64), nn.ReLU(), nn.Linear(64, 1), nn.Sigmoid())

    def forward(self, dense: torch.Tensor, sparse: torch.Tensor) -> torch.Tensor:
        x = self.bottom(dense)
        rows = torch.stack([x, *(table(sparse[:, number]) for number, table in enumerate(self.tables))], 1)
        return self.top(torch.cat([x, (rows @ rows.transpose(1, 2)).flatten(1)], 1))


class _Points(nn.Module):
    """PointNet: shared layers on every point, and the largest value over all of them."""

    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.Sequential(
            nn.Conv1d(3, 64, 1), nn.BatchNorm1d(64), nn.ReLU(), nn.Conv1d(64, 128, 1), nn.BatchNorm1d(128), nn.ReLU()
        )
        self.last = nn.Linear(128, 10)

    def forward(self, points: torch.Tensor) -> torch.Tensor:
        return self.last(self.layers(points).amax(2))


class _GraphConvolution(nn.Module):
    """Two layers of a graph network on a dense matrix of neighbours."""

    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.ModuleList([nn.Linear(24, 64), nn.Linear(64, 8)])

    def forward(self, nodes: torch.Tensor, neighbours: torch.Tensor) -> torch.Tensor:
        return neighbours @ self.layers[1]((neighbours @ self.layers[0](nodes)).relu())


def _step(random: np.random.Generator, *, past: int = PAST, vocabulary: int = VOCABULARY) -> Sample:
    caches = {
        f"{kind}{layer}": random.normal(size=(1, GROUPS, past, HEAD)).astype(np.float32)
        for layer in range(LAYERS)
        for kind in ("key", "value")
    }
    return {"input_ids": random.integers(0, vocabulary, (1, 4)), **caches}


def _first_step(random: np.random.Generator) -> Sample:
    return _step(random, past=0)


def _features(random: np.random.Generator) -> Sample:
    dense = random.normal(size=(4, 13)).astype(np.float32)
    return {"dense": dense, "sparse": random.integers(0, 1000, (4, 4))}


def _graph(random: np.random.Generator) -> Sample:
    edges = random.random((1, 20, 20)) < 0.2
    near = (edges | edges.transpose(0, 2, 1) | np.eye(20, dtype=bool)[None]).astype(np.float32)
    return {
        "nodes": random.normal(size=(1, 20, 24)).astype(np.float32),
        "neighbours": near / near.sum(2, keepdims=True),
    }


_GROWING = {f"{kind}{layer}": {2: "past"} for layer in range(LAYERS) for kind in ("key", "value")}

NETWORKS = (
    Network("tcn", _Tcn, normal(signal=(1, 16, 64))),
    Network("weight_standardization", _Standardized, normal(signal=(1, 16, 64))),
    Network("lstm", lambda: _Recurrent(nn.LSTM), normal(signal=(1, 16, 32))),
    Network("gru", lambda: _Recurrent(nn.GRU), normal(signal=(1, 16, 32))),
    Network("conformer", _Conformer, normal(features=(1, 48, 40))),
    Network("decoder_cached", _Decoder, _step),
    Network("decoder_open", _Decoder, _step, dynamic=_GROWING, exporters=(SCRIPT,)),
    Network("decoder_first", _Decoder, _first_step, dynamic=_GROWING, exporters=(SCRIPT,)),
    Network(
        "decoder_untied",
        lambda: _Decoder(tied=False, vocabulary=150000),
        lambda random: _step(random, vocabulary=150000),
        exporters=(DYNAMO,),
    ),
    Network("experts_einsum", _EinsumExperts, normal(x=(1, 12, 64))),
    Network("experts_gathered", _GatheredExperts, normal(x=(1, 12, 64))),
    Network("recommender", _Recommender, _features, tested_on=256),
    Network("pointnet", _Points, normal(points=(1, 3, 256))),
    Network("graph", _GraphConvolution, _graph),
    Network(
        "embedding_bag",
        lambda: nn.Sequential(nn.Embedding(1000, 64), nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 8)),
        tokens(16, 1000),
    ),
)
