"""The networks that other tools quantize: small, seeded, without training. Needs torch."""

from collections.abc import Callable

import torch
from torch import nn

from benchmarks.foreign_models.samples import CHANNELS, CLASSES, SAMPLES
from benchmarks.networks.warm import SEED, warm

HEADS = 4


class ConvNet(nn.Module):
    """A convolutional network: stem, depthwise block, residual block, pooling, classifier."""

    def __init__(self) -> None:
        super().__init__()
        self.stem = _conv(3, 32)
        self.depthwise = _conv(32, 32, groups=32)
        self.pointwise = _conv(32, 64, kernel=1)
        self.first = _conv(64, 64)
        self.second = nn.Sequential(nn.Conv2d(64, 64, 3, padding=1, bias=False), nn.BatchNorm2d(64))
        self.relu = nn.ReLU()
        self.pool = nn.MaxPool2d(2)
        self.mean = nn.AdaptiveAvgPool2d(1)
        self.flatten = nn.Flatten()
        self.classify = nn.Linear(64, CLASSES)

    def forward(self, image: torch.Tensor) -> torch.Tensor:
        """Return the scores of the classes, ``[N, classes]``, of images ``[N, 3, height, width]``."""
        x = self.pool(self.stem(image))
        x = self.pointwise(self.depthwise(x))
        x = self.relu(self.second(self.first(x)) + x)
        return self.classify(self.flatten(self.mean(x)))


class Block(nn.Module):
    """One block of a transformer, and a head: attention written with MatMul, and an MLP with Gelu."""

    def __init__(self) -> None:
        super().__init__()
        self.before, self.between = nn.LayerNorm(CHANNELS), nn.LayerNorm(CHANNELS)
        self.query, self.key, self.value, self.out = (nn.Linear(CHANNELS, CHANNELS) for _ in range(4))
        self.up, self.down = nn.Linear(CHANNELS, 2 * CHANNELS), nn.Linear(2 * CHANNELS, CHANNELS)
        self.gelu = nn.GELU()
        self.head = nn.Linear(CHANNELS, CLASSES)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Return ``[N, length, classes]`` of ``[N, length, channels]``."""
        y = self.before(x)
        q, k, v = (self._split(layer(y)) for layer in (self.query, self.key, self.value))
        shares = torch.softmax(q @ k.transpose(-2, -1) * (CHANNELS // HEADS) ** -0.5, dim=-1)
        x = x + self.out((shares @ v).transpose(1, 2).reshape(x.shape[0], -1, CHANNELS))
        return self.head(x + self.down(self.gelu(self.up(self.between(x)))))

    def _split(self, x: torch.Tensor) -> torch.Tensor:
        return x.reshape(x.shape[0], -1, HEADS, CHANNELS // HEADS).transpose(1, 2)


class Perceptron(nn.Module):
    """Three linear layers with Relu between them."""

    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.Sequential(
            nn.Linear(CHANNELS, 2 * CHANNELS),
            nn.ReLU(),
            nn.Linear(2 * CHANNELS, CHANNELS),
            nn.ReLU(),
            nn.Linear(CHANNELS, CLASSES),
        )

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Return ``[N, length, classes]`` of ``[N, length, channels]``."""
        return self.layers(x)


NETWORKS: dict[str, Callable[[], nn.Module]] = {"conv": ConvNet, "block": Block, "mlp": Perceptron}


def make(name: str) -> nn.Module:
    """Return the network of that name, the same at every call, with statistics of its samples."""
    torch.manual_seed(SEED)
    module = NETWORKS[name]()
    with torch.no_grad():
        # Trained channels differ in size, which is what makes quantizing them hard.
        for each in module.modules():
            if isinstance(each, nn.LayerNorm):
                each.weight.mul_(torch.exp(0.3 * torch.randn_like(each.weight)))
                each.bias.add_(0.1 * torch.randn_like(each.bias))
    warm(module, SAMPLES[name])
    return module.eval().requires_grad_(requires_grad=False)


def _conv(inputs: int, outputs: int, kernel: int = 3, groups: int = 1) -> nn.Sequential:
    conv = nn.Conv2d(inputs, outputs, kernel, padding=kernel // 2, groups=groups, bias=False)
    return nn.Sequential(conv, nn.BatchNorm2d(outputs), nn.ReLU())
