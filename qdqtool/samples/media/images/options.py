"""The preprocessing of images as a user requests it, and as it is carried out."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Literal, get_args

import msgspec

from qdqtool.errors import ArgumentError
from qdqtool.registry import suggestion

Resize = Literal["crop", "letterbox", "stretch", "none"]
Interpolation = Literal["nearest", "bilinear", "bicubic", "lanczos", "box", "opencv-bilinear"]
Channels = Literal["rgb", "bgr", "grey"]
Layout = Literal["nchw", "nhwc"]
PixelRange = Literal["0..1", "0..255", "-1..1"]

Color = tuple[int, int, int]
"""Red, green and blue, 0 to 255."""

CHOICES: dict[str, tuple[str, ...]] = {
    "resize": get_args(Resize),
    "interpolation": get_args(Interpolation),
    "channels": get_args(Channels),
    "layout": get_args(Layout),
    "pixel_range": get_args(PixelRange),
}
"""The legal values of each attribute that is one of a few words."""

SMALLEST_RATIO = 0.01


@dataclass(frozen=True, slots=True, kw_only=True)
class ImageOptions:
    """How images become inputs, as requested. What is None is taken from the preset, or from the input of the model.

    Attributes:
        preset: Name of a preset (:mod:`qdqtool.samples.media.images.resolve`); None for none.
        resize: ``crop`` covers the input, keeping proportions, and cuts out the middle; ``letterbox`` fits the whole
            image inside and fills the rest; ``stretch`` changes proportions; ``none`` takes only images of that size.
        interpolation: How pixels are computed when the size changes; ``opencv-bilinear`` does not average when an
            image shrinks, the others do (``nearest`` apart).
        crop_ratio: For ``crop``, the share of each side that remains: 0.875 resizes to 256 for an input of 224.
        size: Height and width of the input in pixels, where the model leaves them open.
        pad_color: For ``letterbox``, the color of the filling: red, green, blue, 0 to 255.
        channels: The order of the channels in the input.
        layout: Where the channels are in the input.
        pixel_range: The range to which 0 to 255 is mapped before ``mean`` and ``std`` are applied.
        mean: What is subtracted from each channel, in units of ``pixel_range``, in the order of ``channels``; one
            number is for all of them.
        std: What each channel is divided by after that.

    Raises:
        ArgumentError: A value is illegal.
    """

    preset: str | None = None
    resize: Resize | None = None
    interpolation: Interpolation | None = None
    crop_ratio: float | None = None
    size: tuple[int, int] | None = None
    pad_color: Color | None = None
    channels: Channels | None = None
    layout: Layout | None = None
    pixel_range: PixelRange | None = None
    mean: tuple[float, ...] | None = None
    std: tuple[float, ...] | None = None

    def __post_init__(self) -> None:
        for name, legal in CHOICES.items():
            _require_choice(name, getattr(self, name), legal)
        if self.crop_ratio is not None and not SMALLEST_RATIO <= self.crop_ratio <= 1:
            raise ArgumentError(f"crop_ratio is {self.crop_ratio:g}; it must be from {SMALLEST_RATIO} to 1")
        if self.size is not None and (len(self.size) != 2 or min(self.size) < 1):
            raise ArgumentError(f"size is {self.size}; it must be height and width, both at least 1")
        if self.pad_color is not None and not (len(self.pad_color) == 3 and all(0 <= v <= 255 for v in self.pad_color)):
            raise ArgumentError(f"pad_color is {self.pad_color}; it must be red, green and blue from 0 to 255")
        _require_numbers("mean", self.mean)
        _require_numbers("std", self.std)
        if self.std is not None and min(self.std) <= 0:
            raise ArgumentError(f"std is {self.std}; every number must be larger than 0")


class ImagePreprocessing(msgspec.Struct, frozen=True, kw_only=True, tag_field="kind", tag="images"):
    """How images become inputs, with nothing left open. It is recorded in ranges files and reports.

    Attributes:
        size: Height and width of the input in pixels.
        layout: Where the channels are in the input.
        channels: The channels of the input in their order.
        resize: As in :class:`ImageOptions`, like the attributes below.
        interpolation: How pixels are computed.
        crop_ratio: None where nothing is cropped.
        pad_color: None where nothing is filled.
        pixel_range: The range of the pixels before ``mean`` and ``std``.
        mean: One number for each channel; None where nothing is subtracted.
        std: Likewise, for the division.
    """

    kind: ClassVar[str] = "images"

    size: tuple[int, int]
    layout: Layout
    channels: Channels
    resize: Resize
    interpolation: Interpolation
    crop_ratio: float | None
    pad_color: Color | None
    pixel_range: PixelRange
    mean: tuple[float, ...] | None
    std: tuple[float, ...] | None

    def __str__(self) -> str:
        """One line for reports: ``crop to 224x224, bilinear, rgb, 0..1, mean …, std …``."""
        height, width = self.size
        words = [f"{self.resize} to {height}x{width}" if self.resize != "none" else f"{height}x{width}"]
        if self.resize != "none":
            words.append(self.interpolation)
        words += [self.channels, self.layout, self.pixel_range]
        for name, values in (("mean", self.mean), ("std", self.std)):
            words += [f"{name} {' '.join(f'{value:g}' for value in values)}"] if values is not None else []
        return ", ".join(words)


def _require_choice(name: str, value: Any, legal: Sequence[str]) -> None:
    if value is not None and value not in legal:
        raise ArgumentError(f"{name} is '{value}'; it must be one of {', '.join(legal)}{suggestion(str(value), legal)}")


def _require_numbers(name: str, values: tuple[float, ...] | None) -> None:
    if values is not None and (len(values) not in {1, 3} or not all(map(math.isfinite, values))):
        raise ArgumentError(f"{name} is {values}; it must be one finite number, or three")
