"""What a network of the zoo is, and the inputs that it gets. Needs no torch."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from qdqtool.numerics.dtypes import Array

Sample = dict[str, Array]
SCRIPT, DYNAMO = "torchscript", "dynamo"


@dataclass(frozen=True, slots=True)
class Network:
    """One architecture with random weights.

    Attributes:
        name: Unique in the zoo; the stem of its files.
        make: Makes the ``torch.nn.Module``. Torch is seeded before.
        sample: Makes one complete sample, the inputs in the order of the module's arguments.
        exporters: The exporters of PyTorch that can write it.
        dynamic: The open dimensions by input and axis.
        calibrated_on: How many samples ranges are measured on.
        tested_on: How many other samples outputs are compared on; more for a network that returns a few numbers each.
    """

    name: str
    make: Callable[[], Any]
    sample: Callable[[np.random.Generator], Sample]
    exporters: tuple[str, ...] = (SCRIPT, DYNAMO)
    dynamic: Mapping[str, Mapping[int, str]] = field(default_factory=dict)
    calibrated_on: int = 24
    tested_on: int = 24


PIXELS = (-2.1, 2.6)
"""Black and white after subtracting the mean of ImageNet and dividing by its deviation."""


def image(size: int, channels: int = 3, name: str = "image") -> Callable[[np.random.Generator], Sample]:
    """Pictures of normal values that vary slowly from pixel to pixel, as photos do, with some noise.

    Brightness, color and contrast differ from picture to picture: with the same for all, the features that a network
    averages over the picture hardly depend on it, and the SQNR of its outputs says little. Values are bounded, as those
    of pixels of 8 bits are after the usual normalization.
    """

    def sample(random: np.random.Generator) -> Sample:
        contrast, tint = np.exp(0.4 * random.normal()), 0.7 * random.normal(size=(channels, 1, 1))
        picture = np.clip(contrast * field_of(random, channels, (size, size)) + tint, *PIXELS)
        return {name: picture.astype(np.float32)[None]}

    return sample


def field_of(random: np.random.Generator, channels: int, shape: tuple[int, ...]) -> Array:
    """A float32 array of shape ``[channels, *shape]`` whose neighbours are alike."""
    values = random.normal(size=(channels, *(max(extent // 8, 2) for extent in shape)))
    for axis, extent in enumerate(shape, 1):
        places = np.linspace(0, values.shape[axis] - 1, extent)
        below = np.minimum(places.astype(int), values.shape[axis] - 2)
        share = (places - below).reshape(-1, *[1] * (values.ndim - axis - 1))
        values = values.take(below, axis) * (1 - share) + values.take(below + 1, axis) * share
    return (values + 0.1 * random.normal(size=values.shape)).astype(np.float32)


def tokens(
    length: int, vocabulary: int, name: str = "input_ids", *, mask: bool = False
) -> Callable[[np.random.Generator], Sample]:
    """Random tokens, and a mask that ends before the last of them."""

    def sample(random: np.random.Generator) -> Sample:
        made: Sample = {name: random.integers(0, vocabulary, (1, length))}
        if mask:
            made["attention_mask"] = (np.arange(length) < random.integers(length // 2, length + 1)).astype(np.int64)[
                None
            ]
        return made

    return sample


def normal(**shapes: tuple[int, ...]) -> Callable[[np.random.Generator], Sample]:
    """Independent normal values, float32."""

    def sample(random: np.random.Generator) -> Sample:
        return {name: random.normal(size=shape).astype(np.float32) for name, shape in shapes.items()}

    return sample


def stacked(samples: Iterable[Sample]) -> Sample:
    """Return the samples by input, each input stacked on a new first axis."""
    made = list(samples)
    return {name: np.stack([sample[name] for sample in made]) for name in made[0]}
