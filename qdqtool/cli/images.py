"""Options of the commands that read images: preprocessing, labels and the preview."""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from qdqtool.cli.options import OutputPath

if TYPE_CHECKING:
    from qdqtool.samples.media.images.options import ImageOptions

Decorated = TypeVar("Decorated", bound=Callable[..., Any])

IMAGES = (
    "image_preset",
    "image_resize",
    "image_interpolation",
    "image_crop_ratio",
    "image_pad_color",
    "image_size",
    "image_channels",
    "image_layout",
    "image_range",
    "image_mean",
    "image_std",
    "labels",
    "preview",
)
"""The options, as they stand under their heading in help texts."""

MOST_CHANNELS = 3


def image_options() -> Callable[[Decorated], Decorated]:
    """``--image-*``, ``--labels`` and ``--preview``; :func:`make_image_options` takes the values of the first."""
    options = (
        click.option(
            "--image-preset",
            metavar="NAME",
            # Spelled out: the module of the presets imports what no help text waits for.
            help="How images become the input of the model: imagenet, clip, yolo, opencv, caffe, tensorflow or unit "
            "(`qdqtool explain images`).",
        ),
        click.option(
            "--image-resize",
            metavar="MODE",
            help="crop covers the input and cuts out the middle, letterbox fits the whole image inside and fills the "
            "rest, stretch changes proportions, none takes only images of that size.",
        ),
        click.option(
            "--image-interpolation",
            metavar="NAME",
            help="nearest, bilinear, bicubic, lanczos or box, as in Pillow; or opencv-bilinear.",
        ),
        click.option(
            "--image-crop-ratio", type=float, metavar="X", help="crop: the share of each side that remains, as 0.875."
        ),
        click.option("--image-pad-color", metavar="COLOR", help="letterbox: R,G,B or one number, 0 to 255."),
        click.option("--image-size", metavar="HxW", help="Height and width, where the model leaves them open."),
        click.option(
            "--image-channels", metavar="ORDER", help="rgb, bgr or grey.  [default: grey where there is one channel]"
        ),
        click.option("--image-layout", metavar="LAYOUT", help="nchw or nhwc.  [default: by the shape of the input]"),
        click.option(
            "--image-range",
            metavar="LOW..HIGH",
            help="What the pixels are mapped to before mean and std: 0..1, 0..255 or -1..1.",
        ),
        click.option(
            "--image-mean",
            metavar="X,X,X",
            help="What is subtracted from the channels in their order, in units of the range.",
        ),
        click.option("--image-std", metavar="X,X,X", help="What they are divided by then."),
        click.option(
            "--labels",
            type=click.Path(path_type=Path),
            metavar="FILE.csv",
            help="Labels of images or sound files, rows FILE,LABEL.  [default: the names of their folders]",
        ),
        click.option(
            "--preview",
            type=OutputPath(is_binary=True),
            metavar="FILE.png",
            help="Write a picture of the first images as the network sees them.",
        ),
    )

    def decorate(function: Decorated) -> Decorated:
        for option in reversed(options):
            function = option(function)
        return function

    return decorate


def make_image_options(values: Mapping[str, Any]) -> "ImageOptions":
    """The request that the values of ``--image-*`` make."""
    from qdqtool.samples.media.images.options import ImageOptions

    return ImageOptions(
        preset=values["image_preset"],
        resize=_word(values, "image_resize", "resize"),
        interpolation=_word(values, "image_interpolation", "interpolation"),
        crop_ratio=values["image_crop_ratio"],
        size=_size(values["image_size"]),
        pad_color=_color(values["image_pad_color"]),
        channels=_word(values, "image_channels", "channels"),
        layout=_word(values, "image_layout", "layout"),
        pixel_range=_word(values, "image_range", "pixel_range"),
        mean=_numbers(values["image_mean"], "--image-mean"),
        std=_numbers(values["image_std"], "--image-std"),
    )


def _word(values: Mapping[str, Any], option: str, attribute: str) -> Any:
    from qdqtool.errors import UsageError
    from qdqtool.registry import suggestion
    from qdqtool.samples.media.images.options import CHOICES

    value = values[option]
    if value is not None and value not in CHOICES[attribute]:
        legal = CHOICES[attribute]
        raise UsageError(
            f"--{option.replace('_', '-')} is '{value}'; it must be one of {', '.join(legal)}{suggestion(value, legal)}"
        )
    return value


def _size(text: str | None) -> tuple[int, int] | None:
    from qdqtool.errors import UsageError

    if text is None:
        return None
    parts = text.lower().split("x")
    if len(parts) != 2 or not all(part.isascii() and part.isdecimal() and 0 < int(part) < 1 << 16 for part in parts):
        raise UsageError(f"--image-size is '{text}'; it must be HEIGHTxWIDTH in pixels, such as 320x640")
    return int(parts[0]), int(parts[1])


def _numbers(text: str | None, option: str) -> tuple[float, ...] | None:
    import math

    from qdqtool.errors import UsageError

    if text is None:
        return None
    try:
        found = tuple(float(part) for part in text.split(","))
    except ValueError:
        found = ()
    positive = option != "--image-std" or all(value > 0 for value in found)
    if len(found) not in {1, MOST_CHANNELS} or not all(map(math.isfinite, found)) or not positive:
        kind = "numbers above 0" if option == "--image-std" else "finite numbers"
        raise UsageError(f"{option} is '{text}'; it must be one or three {kind} with commas, such as 0.5,0.5,0.5")
    return found


def _color(text: str | None) -> tuple[int, int, int] | None:
    from qdqtool.errors import UsageError

    if text is None:
        return None
    parts = text.split(",")
    valid = all(part.isascii() and part.isdecimal() and int(part) < 256 for part in parts)
    if not valid or len(parts) not in {1, MOST_CHANNELS}:
        raise UsageError(f"--image-pad-color is '{text}'; it must be R,G,B from 0 to 255, or one number for grey")
    red, green, blue = (int(part) for part in (parts * MOST_CHANNELS if len(parts) == 1 else parts))
    return red, green, blue
