"""Drawn portraits for face detectors: ovals with eyes, brows, nose and mouth before smooth noise."""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from benchmarks.comparison import data

Image = npt.NDArray[np.float32]
HAIR, SKIN = np.array((50.0, 38, 30)), np.array((205.0, 160, 135))
EYEBALL, IRIS = np.array((235.0, 230, 225)), np.array((40.0, 28, 20))
NOT_RED = np.array((0.75, 0.45, 0.45))


@dataclass(frozen=True, slots=True)
class Oval:
    """A patch of colour with a soft edge, in units of half a face's width, from its middle downwards and to the right.

    Attributes:
        centre: Down and right.
        radii: Down and right.
        colour: Red, green, blue, from 0 to 255.
        edge: Softness.
        opacity: At its middle.
    """

    centre: tuple[float, float]
    radii: tuple[float, float]
    colour: npt.NDArray[np.float64]
    edge: float = 0.3
    opacity: float = 1


def images(count: int, size: tuple[int, int], seed: int) -> Image:
    """Pictures with one to three faces each, red, green, blue from 0 to 255; shape [count, 3, *size]."""
    random = np.random.default_rng(seed)
    made = 120 + 45 * data.images(count, (3, *size), seed)
    for image in made:
        for _ in range(int(random.integers(1, 4))):
            _draw(image, random)
    return (made + random.normal(0, 2, made.shape)).clip(0, 255).astype(np.float32)


def _draw(image: Image, random: np.random.Generator) -> None:
    """One face, anywhere, of any size that detectors look for."""
    unit = np.exp(random.uniform(np.log(16), np.log(65)))
    height, width = image.shape[1:]
    top = random.uniform(1.4 * unit, height - 1.5 * unit)
    left = random.uniform(1.1 * unit, width - 1.1 * unit)
    down, right = (np.mgrid[:height, :width] - np.array((top, left))[:, None, None]) / unit
    for oval in _face(SKIN * random.uniform(0.6, 1.15), HAIR * random.uniform(0.5, 2)):
        distance = np.hypot((down - oval.centre[0]) / oval.radii[0], (right - oval.centre[1]) / oval.radii[1])
        cover = oval.opacity * (0.5 - 0.5 * np.tanh((distance - 1) / (2 * oval.edge)))
        image += cover * (oval.colour[:, None, None] - image)


def _face(skin: npt.NDArray[np.float64], hair: npt.NDArray[np.float64]) -> Iterator[Oval]:
    """From the back to the front."""
    yield Oval((-0.25, 0), (1.35, 1.05), hair, 0.06)
    yield Oval((1.4, 0), (0.6, 0.45), 0.8 * skin, 0.08)
    yield Oval((0.1, 0), (1.2, 0.85), skin, 0.06)
    for side in (-1, 1):
        yield Oval((-0.18, 0.36 * side), (0.17, 0.26), 0.55 * skin, 0.4, 0.6)
        yield Oval((-0.38, 0.38 * side), (0.06, 0.24), hair)
        yield Oval((-0.15, 0.36 * side), (0.08, 0.16), EYEBALL, 0.2)
        yield Oval((-0.15, 0.36 * side), (0.08, 0.08), IRIS, 0.2)
        yield Oval((0.3, 0.09 * side), (0.05, 0.06), 0.5 * skin, 0.4)
    yield Oval((0.1, -0.1), (0.3, 0.06), 0.75 * skin, 0.5, 0.4)
    yield Oval((0.25, 0), (0.12, 0.13), 1.15 * skin, 0.5, 0.4)
    yield Oval((0.62, 0), (0.1, 0.32), NOT_RED * skin, 0.25)
    yield Oval((0.61, 0), (0.025, 0.3), 0.35 * skin)
