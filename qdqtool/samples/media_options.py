"""The options for the preprocessing of images, sound and text."""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Literal, get_args

from qdqtool.errors import ArgumentError, QdqError, UsageError
from qdqtool.options import Kind, choice, file, integer, number, option, text
from qdqtool.registry import suggestion

Resize = Literal["crop", "letterbox", "stretch", "none"]
Interpolation = Literal["nearest", "bilinear", "bicubic", "lanczos", "box", "opencv-bilinear"]
Channels = Literal["rgb", "bgr", "grey"]
Layout = Literal["nchw", "nhwc"]
PixelRange = Literal["0..1", "0..255", "-1..1"]
SampleRange = Literal["-1..1", "int16"]

Color = tuple[int, int, int]
"""Red, green and blue, 0 to 255."""

CHOICES: dict[str, tuple[str, ...]] = {
    "resize": get_args(Resize),
    "interpolation": get_args(Interpolation),
    "channels": get_args(Channels),
    "layout": get_args(Layout),
    "pixel_range": get_args(PixelRange),
}
"""The legal values of each attribute of images that is a choice."""
RANGES: tuple[str, ...] = get_args(SampleRange)

IMAGES = "Images"
SOUND_AND_TEXT = "Sound and text"
"""Headings of the help."""

SMALLEST_RATIO = 0.01
_MOST_CHANNELS = 3
_MOST_HERTZ = 4_000_000
"""Above this rate, resampling a piece takes hundreds of megabytes; near 2^31, soxr cannot count the values."""
_MOST_VALUES = 1 << 26
"""Largest number of values of a window of sound along time: 256 MiB in float32."""
_MOST_TOKENS = 1 << 20
"""Largest number of tokens of a sample of text."""


def _word(attribute: str, metavar: str) -> Kind:
    """Return the option kind of an attribute that is a choice; the option's help explains the legal values."""
    legal = CHOICES[attribute]

    def read(value: str, name: str) -> str:
        _require_choice(name, value, legal, UsageError)
        return value

    return Kind(form="text", keyword=choice(*legal).keyword, metavar=metavar, read=read)


def _read_size(word: str, name: str) -> tuple[int, int]:
    parts = word.lower().split("x")
    if len(parts) != 2 or not all(part.isascii() and part.isdecimal() and 0 < int(part) < 1 << 16 for part in parts):
        raise UsageError(f"{name} is '{word}'; it must be HEIGHTxWIDTH in pixels, such as 320x640")
    return int(parts[0]), int(parts[1])


def _read_numbers(word: str, name: str) -> tuple[float, ...]:
    try:
        found = tuple(float(part) for part in word.split(","))
    except ValueError:
        found = ()
    positive = name != "--image-std" or all(value > 0 for value in found)
    if len(found) not in {1, _MOST_CHANNELS} or not all(map(math.isfinite, found)) or not positive:
        kind = "numbers above 0" if name == "--image-std" else "finite numbers"
        raise UsageError(f"{name} is '{word}'; it must be one or three {kind} with commas, such as 0.5,0.5,0.5")
    return found


def _read_color(word: str, name: str) -> Color:
    parts = word.split(",")
    valid = all(part.isascii() and part.isdecimal() and int(part) < 256 for part in parts)
    if not valid or len(parts) not in {1, _MOST_CHANNELS}:
        raise UsageError(f"{name} is '{word}'; it must be R,G,B from 0 to 255, or one number for grey")
    red, green, blue = (int(part) for part in (parts * _MOST_CHANNELS if len(parts) == 1 else parts))
    return red, green, blue


def _take_numbers(value: float | Sequence[float]) -> tuple[float, ...]:
    return (float(value),) if isinstance(value, float | int) else tuple(value)


def _take_color(value: int | Sequence[int]) -> tuple[int, ...]:
    return (value,) * _MOST_CHANNELS if isinstance(value, int) else tuple(value)


def _form(keyword: str, metavar: str, read: Callable[[Any, str], Any], take: Callable[[Any], Any]) -> Kind:
    return Kind(form="text", keyword=keyword, metavar=metavar, read=read, take=take)


_NUMBERS = _form("float | Sequence[float]", "X,X,X", _read_numbers, _take_numbers)
_COLOR = _form("int | Sequence[int]", "COLOR", _read_color, _take_color)
_SIZE = _form("Sequence[int]", "HxW", _read_size, tuple)

_image = partial(option, None, section=IMAGES)
_sound_or_text = partial(option, None, section=SOUND_AND_TEXT)
"""Declare an option of one of these sections. The default is None."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ImageOptions:
    """The requested preprocessing of images. Where a value is None, the preset or the input of the model decides.

    Attributes:
        preset: Name of a preset (:mod:`qdqtool.samples.media.images.resolve`), or None.
        resize: ``crop`` covers the input, keeping proportions, and cuts out the middle. ``letterbox`` fits the whole
            image inside and fills the border. ``stretch`` changes proportions. ``none`` requires images of that size.
        interpolation: How pixels are computed when the size changes. When an image shrinks, all filters average pixels
            except ``opencv-bilinear`` and ``nearest``.
        crop_ratio: For ``crop``, the share of each side that is kept: 0.875 resizes to 256 for an input of 224.
        pad_color: For ``letterbox``, the color of the border: red, green, blue, 0 to 255.
        size: Height and width of the input in pixels, if they are dynamic in the model.
        channels: The order of the channels in the input.
        layout: The position of the channel axis in the input.
        pixel_range: The range to which pixels of 0 to 255 are mapped before ``mean`` and ``std`` are applied.
        mean: The number to subtract from each channel, on the scale of ``pixel_range`` and in the order of
            ``channels``; a single number applies to all channels.
        std: The divisor of each channel, applied after the subtraction.

    Raises:
        ArgumentError: A value is illegal.
    """

    preset: str | None = _image(
        "Preprocessing of images: imagenet, clip, yolo, opencv, caffe, tensorflow or unit (`qdqtool explain data`).",
        text("NAME"),
        name="image_preset",
    )
    resize: Resize | None = _image(
        "crop covers the input and cuts out the middle, letterbox fits the whole image inside and fills the rest, "
        "stretch changes proportions, none takes only images of that size.",
        _word("resize", "MODE"),
        name="image_resize",
    )
    interpolation: Interpolation | None = _image(
        "nearest, bilinear, bicubic, lanczos or box, as in Pillow; or opencv-bilinear.",
        _word("interpolation", "NAME"),
        name="image_interpolation",
    )
    crop_ratio: float | None = _image(
        "crop: the share of each side that remains, as 0.875.", number("X"), name="image_crop_ratio"
    )
    pad_color: Color | None = _image("letterbox: R,G,B or one number, 0 to 255.", _COLOR, name="image_pad_color")
    size: tuple[int, int] | None = _image("Height and width, if the model leaves them open.", _SIZE, name="image_size")
    channels: Channels | None = _image(
        "rgb, bgr or grey.  [default: grey for one channel]", _word("channels", "ORDER"), name="image_channels"
    )
    layout: Layout | None = _image(
        "nchw or nhwc.  [default: by the shape of the input]", _word("layout", "LAYOUT"), name="image_layout"
    )
    pixel_range: PixelRange | None = _image(
        "Range of the pixels before mean and std: 0..1, 0..255 or -1..1.",
        _word("pixel_range", "LOW..HIGH"),
        name="image_range",
    )
    mean: tuple[float, ...] | None = _image(
        "Subtract these numbers from the channels in their order, in units of the range.", _NUMBERS, name="image_mean"
    )
    std: tuple[float, ...] | None = _image("Then divide the channels by these numbers.", _NUMBERS, name="image_std")

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


def _require_choice(name: str, value: Any, legal: Sequence[str], refusal: type[QdqError] = ArgumentError) -> None:
    if value is not None and value not in legal:
        raise refusal(f"{name} is '{value}'; it must be one of {', '.join(legal)}{suggestion(str(value), legal)}")


def _require_count(name: str, value: int | None, most: int) -> None:
    if value is not None and not 1 <= value <= most:
        raise ArgumentError(f"{name} is {value}; it must be from 1 to {most:,}")


def _require_numbers(name: str, values: tuple[float, ...] | None) -> None:
    if values is not None and (len(values) not in {1, 3} or not all(map(math.isfinite, values))):
        raise ArgumentError(f"{name} is {values}; it must be one finite number, or three")


@dataclass(frozen=True, slots=True, kw_only=True)
class SoundOptions:
    """The requested preprocessing of sound. Each sample of an input is a window of a file.

    Attributes:
        rate: The sample rate in Hz that the network was trained with. Files with another rate are resampled. The rate
            is required, because a model does not store it.
        length: Number of values of a window along time, if it is dynamic in the model.
        hop: Values from the start of one window to the start of the next; None for windows without overlap or gap.
        sample_range: The range of the values: full scale is 1.0 (``-1..1``, the default) or 32768 (``int16``).

    Raises:
        ArgumentError: A value is illegal.
    """

    rate: int | None = _sound_or_text(
        "The rate that the network was trained with; files of another rate are resampled (`qdqtool explain data`).",
        integer("HZ", 1),
        name="sound_rate",
    )
    length: int | None = _sound_or_text(
        "Number of values in a window of sound, if the model leaves it open.", integer("N", 1), name="sound_length"
    )
    hop: int | None = _sound_or_text(
        "Values from the start of one window to the start of the next.  [default: the length]",
        integer("N", 1),
        name="sound_hop",
    )
    sample_range: SampleRange | None = _sound_or_text(
        "Range of the values: full scale is 1 or 32768.  [default: -1..1]", choice(*RANGES), name="sound_range"
    )

    def __post_init__(self) -> None:
        for name, most in (("rate", _MOST_HERTZ), ("length", _MOST_VALUES), ("hop", _MOST_VALUES)):
            _require_count(f"{name} of sound", getattr(self, name), most)
        _require_choice("sample_range", self.sample_range, RANGES)


@dataclass(frozen=True, slots=True, kw_only=True)
class TextOptions:
    """The requested preprocessing of lines of text.

    Attributes:
        tokenizer: A ``tokenizer.json`` of the library tokenizers; required.
        length: Number of tokens of a sample, if it is dynamic in the model.
        pad_token: The token that pads short lines; None for the padding token of the tokenizer.

    Raises:
        ArgumentError: The length is not from 1 to 1,048,576.
    """

    tokenizer: Path | None = _sound_or_text(
        "tokenizer.json, which turns the lines of a .txt file into token ids.", file("FILE")
    )
    length: int | None = _sound_or_text(
        "Tokens of a sample, if the model leaves them open.", integer("N", 1), name="text_length"
    )
    pad_token: str | None = _sound_or_text(
        "Token that fills short lines.  [default: that of the tokenizer]", text("TOKEN"), name="text_pad_token"
    )

    def __post_init__(self) -> None:
        _require_count("length of text", self.length, _MOST_TOKENS)
