"""Image networks that no package of the zoo brings, in the form that their authors give them."""

from itertools import pairwise

import numpy as np
import torch
from torch import nn

from benchmarks.networks.families.blocks import conv
from benchmarks.networks.network import Network, Sample, field_of, image, normal


class _Csp(nn.Module):
    """A stage of YOLO: the channels are cut in two, bottlenecks on one half, all parts are joined."""

    def __init__(self, inner: int, outer: int, depth: int = 1, *, shortcut: bool = True) -> None:
        super().__init__()
        self.half, self.shortcut = outer // 2, shortcut
        self.first, self.last = conv(inner, outer, 1), conv((2 + depth) * self.half, outer, 1)
        self.blocks = nn.ModuleList(
            nn.Sequential(conv(self.half, self.half), conv(self.half, self.half)) for _ in range(depth)
        )

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        parts = list(self.first(x).chunk(2, 1))
        for block in self.blocks:
            made = block(parts[-1])
            parts.append(parts[-1] + made if self.shortcut else made)
        return self.last(torch.cat(parts, 1))


class _Sppf(nn.Module):
    """Three max poolings one behind the other, and all of them joined."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.first, self.last, self.pool = conv(width, width // 2, 1), conv(2 * width, width, 1), nn.MaxPool2d(5, 1, 2)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        parts = [self.first(x)]
        for _ in range(3):
            parts.append(self.pool(parts[-1]))
        return self.last(torch.cat(parts, 1))


class _Yolo(nn.Module):
    """Backbone, feature pyramid and a head whose boxes are expectations of distributions (DFL)."""

    BINS, CLASSES = 8, 6

    def __init__(self) -> None:
        super().__init__()
        self.stem = nn.Sequential(conv(3, 16, 3, 2), conv(16, 32, 3, 2), _Csp(32, 32))
        self.down3, self.down4 = nn.Sequential(conv(32, 64, 3, 2), _Csp(64, 64)), conv(64, 128, 3, 2)
        self.top = nn.Sequential(_Csp(128, 128), _Sppf(128))
        self.lateral, self.up = _Csp(192, 64, shortcut=False), nn.Upsample(scale_factor=2, mode="nearest")
        self.bottom_down, self.bottom = conv(64, 64, 3, 2), _Csp(192, 128, shortcut=False)
        self.heads = nn.ModuleList(self._head(width) for width in (64, 128))
        self.register_buffer("bins", torch.arange(self.BINS, dtype=torch.float32).reshape(1, 1, self.BINS, 1))

    def _head(self, width: int) -> nn.Module:
        return nn.Sequential(conv(width, 48), nn.Conv2d(48, 4 * self.BINS + self.CLASSES, 1))

    def forward(self, image: torch.Tensor) -> torch.Tensor:
        low = self.down3(self.stem(image))
        high = self.top(self.down4(low))
        middle = self.lateral(torch.cat([self.up(high), low], 1))
        levels = [middle, self.bottom(torch.cat([self.bottom_down(middle), high], 1))]
        found = [head(level).flatten(2) for head, level in zip(self.heads, levels, strict=True)]
        boxes, classes = torch.cat(found, 2).split((4 * self.BINS, self.CLASSES), 1)
        share = boxes.reshape(boxes.shape[0], 4, self.BINS, -1).softmax(2)
        return torch.cat([(share * self.bins).sum(2), classes.sigmoid()], 1)


class _UNet(nn.Module):
    """Skips are joined behind transposed convolutions."""

    def __init__(self) -> None:
        super().__init__()
        self.down = nn.ModuleList([self._two(3, 16), self._two(16, 32), self._two(32, 64)])
        self.up = nn.ModuleList([nn.ConvTranspose2d(64, 32, 2, 2), nn.ConvTranspose2d(32, 16, 2, 2)])
        self.join, self.pool = nn.ModuleList([self._two(64, 32), self._two(32, 16)]), nn.MaxPool2d(2)
        self.last = nn.Conv2d(16, 4, 1)

    @staticmethod
    def _two(inner: int, outer: int) -> nn.Module:
        layers = [nn.Conv2d(inner, outer, 3, padding=1), nn.BatchNorm2d(outer), nn.ReLU()]
        return nn.Sequential(*layers, nn.Conv2d(outer, outer, 3, padding=1), nn.BatchNorm2d(outer), nn.ReLU())

    def forward(self, image: torch.Tensor) -> torch.Tensor:
        first = self.down[0](image)
        second = self.down[1](self.pool(first))
        x = self.down[2](self.pool(second))
        for up, join, skip in zip(self.up, self.join, (second, first), strict=True):
            x = join(torch.cat([up(x), skip], 1))
        return self.last(x)


class _SqueezeExcite(nn.Module):
    """Blocks whose gate is computed by two tiny convolutions, 96 to 4 and back."""

    def __init__(self) -> None:
        super().__init__()
        self.stem = conv(3, 32, 3, 2)
        self.expand, self.depth = conv(32, 96, 1), conv(96, 96, 3, groups=96)
        self.reduce, self.widen, self.project = nn.Conv2d(96, 4, 1), nn.Conv2d(4, 96, 1), nn.Conv2d(96, 32, 1)

    def forward(self, image: torch.Tensor) -> torch.Tensor:
        x = self.stem(image)
        wide = self.depth(self.expand(x))
        gate = torch.sigmoid(self.widen(nn.functional.silu(self.reduce(wide.mean((2, 3), keepdim=True)))))
        return x + self.project(wide * gate)


class _SuperResolution(nn.Module):
    """ESPCN: the pixels of the larger image are channels of the smaller."""

    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.Sequential(
            nn.Conv2d(1, 32, 5, padding=2),
            nn.Tanh(),
            nn.Conv2d(32, 32, 3, padding=1),
            nn.Tanh(),
            nn.Conv2d(32, 9, 3, padding=1),
            nn.PixelShuffle(3),
        )

    def forward(self, image: torch.Tensor) -> torch.Tensor:
        return self.layers(image)


class _Style(nn.Module):
    """A style transfer network: InstanceNormalization, residual blocks, nearest upsampling."""

    def __init__(self) -> None:
        super().__init__()
        self.down = nn.Sequential(self._layer(3, 16), self._layer(16, 32, 2), self._layer(32, 64, 2))
        self.blocks = nn.ModuleList(nn.Sequential(self._layer(64, 64), self._layer(64, 64)) for _ in range(2))
        up = nn.Upsample(scale_factor=2, mode="nearest")
        self.up = nn.Sequential(up, self._layer(64, 32), up, self._layer(32, 16), nn.Conv2d(16, 3, 3, padding=1))

    @staticmethod
    def _layer(inner: int, outer: int, stride: int = 1) -> nn.Module:
        norm = nn.InstanceNorm2d(outer, affine=True)
        return nn.Sequential(nn.ReflectionPad2d(1), nn.Conv2d(inner, outer, 3, stride), norm, nn.ReLU())

    def forward(self, image: torch.Tensor) -> torch.Tensor:
        x = self.down(image)
        for block in self.blocks:
            x = x + block(x)
        return self.up(x)


class _Generator(nn.Module):
    """A generator of images: transposed convolutions from a vector."""

    def __init__(self) -> None:
        super().__init__()
        widths, layers = (64, 48, 32, 16), []
        for inner, outer in pairwise(widths):
            layers += [nn.ConvTranspose2d(inner, outer, 4, 2, 1, bias=False), nn.BatchNorm2d(outer), nn.ReLU()]
        self.first = nn.Linear(32, 64 * 16)
        self.layers = nn.Sequential(*layers, nn.ConvTranspose2d(16, 3, 4, 2, 1), nn.Tanh())

    def forward(self, latent: torch.Tensor) -> torch.Tensor:
        return self.layers(self.first(latent).reshape(-1, 64, 4, 4))


class _Diffusion(nn.Module):
    """One stage of a diffusion UNet: GroupNormalization, a time embedding, attention over the pixels."""

    def __init__(self) -> None:
        super().__init__()
        self.inner, self.time = nn.Conv2d(4, 64, 3, padding=1), nn.Sequential(nn.Linear(32, 64), nn.SiLU())
        self.norms = nn.ModuleList(nn.GroupNorm(8, 64) for _ in range(3))
        self.convs = nn.ModuleList(nn.Conv2d(64, 64, 3, padding=1) for _ in range(2))
        self.qkv, self.out, self.last = nn.Linear(64, 192), nn.Linear(64, 64), nn.Conv2d(64, 4, 3, padding=1)
        self.register_buffer("rates", torch.exp(torch.linspace(0, -6, 16)))

    def forward(self, latent: torch.Tensor, step: torch.Tensor) -> torch.Tensor:
        angles = step[:, None] * self.rates
        embedded = self.time(torch.cat([angles.sin(), angles.cos()], 1))[:, :, None, None]
        x = self.inner(latent)
        y = self.convs[0](nn.functional.silu(self.norms[0](x))) + embedded
        x = x + self.convs[1](nn.functional.silu(self.norms[1](y)))
        x = x + self._attention(self.norms[2](x))
        return self.last(nn.functional.silu(x))

    def _attention(self, x: torch.Tensor) -> torch.Tensor:
        pixels = x.flatten(2).transpose(1, 2)
        q, k, v = (part.reshape(1, -1, 4, 16).transpose(1, 2) for part in self.qkv(pixels).chunk(3, -1))
        mixed = (q @ k.transpose(-1, -2) * 0.25).softmax(-1) @ v
        return self.out(mixed.transpose(1, 2).reshape(1, -1, 64)).transpose(1, 2).reshape(x.shape)


def _latent(random: np.random.Generator) -> Sample:
    return {"latent": field_of(random, 4, (16, 16))[None], "step": random.integers(0, 1000, 1).astype(np.float32)}


def _volume(random: np.random.Generator) -> Sample:
    return {"volume": field_of(random, 1, (16, 24, 24))[None]}


class _Volumes(nn.Module):
    """A network on volumes: three-dimensional convolutions, strided and transposed."""

    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.Sequential(
            nn.Conv3d(1, 16, 3, padding=1),
            nn.BatchNorm3d(16),
            nn.ReLU(),
            nn.Conv3d(16, 32, 3, 2, 1),
            nn.ReLU(),
            nn.ConvTranspose3d(32, 16, 2, 2),
            nn.ReLU(),
            nn.Conv3d(16, 2, 1),
        )

    def forward(self, volume: torch.Tensor) -> torch.Tensor:
        return self.layers(volume)


class _Rays(nn.Module):
    """The network of a radiance field: positions as sines of many frequencies, a skip in the middle."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("rates", 2.0 ** torch.arange(6))
        self.first = nn.Sequential(nn.Linear(39, 128), nn.ReLU(), nn.Linear(128, 128), nn.ReLU())
        self.last = nn.Sequential(nn.Linear(167, 128), nn.ReLU(), nn.Linear(128, 4))

    def forward(self, points: torch.Tensor) -> torch.Tensor:
        angles = (points[..., None] * self.rates).flatten(-2)
        x = torch.cat([points, angles.sin(), angles.cos()], -1)
        return self.last(torch.cat([self.first(x), x], -1))


NETWORKS = (
    Network("yolo", _Yolo, image(128)),
    Network("unet", _UNet, image(64)),
    Network("unet_open", _UNet, image(64), dynamic={"image": {2: "height", 3: "width"}}),
    Network("squeeze_excite", _SqueezeExcite, image(64)),
    Network("espcn", _SuperResolution, image(48, 1)),
    Network("style", _Style, image(64)),
    Network("generator", _Generator, normal(latent=(1, 32))),
    Network("diffusion", _Diffusion, _latent),
    Network("unet3d", _Volumes, _volume),
    Network("radiance", _Rays, normal(points=(1, 64, 3))),
)
