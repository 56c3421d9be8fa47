"""Decode an image file into pixels; every fault of the file gives one message."""

import contextlib
import struct
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from qdqtool.errors import CapabilityError, UsageError

if TYPE_CHECKING:
    from PIL import Image

FORMATS = ("JPEG", "PNG", "WEBP", "BMP", "GIF", "TIFF", "PPM")
"""The formats that are decoded. Pillow knows more formats, but starts other programs for some of them."""

MOST_PIXELS = 1 << 27
"""Images with more pixels are refused, because a small file can unpack to gigabytes."""

BACKGROUND = (255, 255, 255)
"""The color that replaces transparent pixels."""

WIDE = ("I;16", "I;16L", "I;16B", "I;16N")
"""Pillow's modes of gray images with 16 bits."""

DAMAGED = (OSError, SyntaxError, ValueError, EOFError, struct.error, KeyError, IndexError, TypeError, OverflowError)
"""The errors that Pillow raises for damaged files."""


def require_pillow() -> None:
    """Check that Pillow is installed.

    Raises:
        CapabilityError: Pillow is not installed.
    """
    try:
        import PIL.Image  # noqa: F401
    except ImportError:
        raise CapabilityError(
            "images are read with Pillow, which is not installed", hint="`pip install pillow`"
        ) from None


def decode(file: Path, *, grey: bool) -> "Image.Image":
    """Return an image in the orientation that its metadata gives, with 8 bits for each channel.

    The EXIF orientation is applied. Transparent pixels become white. The upper 8 of 16 bits are used. If the input
    needs it, one channel is repeated to three, and three channels become luma (ITU-R 601).

    Args:
        file: The file.
        grey: Whether to return one channel (mode ``L``) instead of three (``RGB``).
    """
    require_pillow()
    from PIL import ImageOps

    with _readable(file), _opened(file) as image:
        _require_one_picture(image, file)
        image.load()
        upright = ImageOps.exif_transpose(image)
        return _opaque(_eight_bits(upright, file)).convert("L" if grey else "RGB")


@contextlib.contextmanager
def _opened(file: Path) -> Iterator["Image.Image"]:
    from PIL import Image

    Image.init()  # open() knows only the commonest formats before
    with Image.open(file, formats=FORMATS) as image:
        if image.width * image.height > MOST_PIXELS:
            raise UsageError(
                f"{file} has {image.width}x{image.height} pixels; images above {MOST_PIXELS:,} pixels are not decoded",
                hint="make it smaller, or move it out of the folder",
            )
        yield image


@contextlib.contextmanager
def _readable(file: Path) -> Iterator[None]:
    """Turn every Pillow error inside the block into one message."""
    from PIL import Image, UnidentifiedImageError

    try:
        with warnings.catch_warnings():
            # Large images are refused by our own limit, and damaged metadata does not change pixels.
            warnings.simplefilter("ignore")
            yield
    except UsageError:
        raise
    except UnidentifiedImageError:
        what = "is empty" if file.stat().st_size == 0 else f"is no image of a known format ({', '.join(FORMATS)})"
        raise UsageError(f"{file} {what}", hint="replace it, or move it out of the folder") from None
    except Image.DecompressionBombError as error:
        raise UsageError(f"{file} is too large: {error}", hint="move it out of the folder") from None
    except DAMAGED as error:
        raise UsageError(
            f"{file} is damaged or cannot be read: {error}", hint="replace it, or move it out of the folder"
        ) from None


def _require_one_picture(image: "Image.Image", file: Path) -> None:
    frames = getattr(image, "n_frames", 1)
    # Cameras add a preview or a second view after the picture in an MPO file, which is named .jpg.
    if frames > 1 and image.format != "MPO":
        raise UsageError(
            f"{file} has {frames} frames; a sample is a single picture",
            hint="save the frames that are wanted as files of their own, or move it out of the folder",
        )


def _eight_bits(image: "Image.Image", file: Path) -> "Image.Image":
    import numpy as np
    from PIL import Image

    if image.mode in WIDE:
        return Image.fromarray((np.asarray(image).astype(np.uint16) >> 8).astype(np.uint8))
    if image.mode in {"I", "F"}:
        raise UsageError(
            f"{file} has pixels of 32 bits (mode {image.mode}), whose range is not known",
            hint="save it with 8 or 16 bits",
        )
    return image


def _opaque(image: "Image.Image") -> "Image.Image":
    from PIL import Image

    if not image.has_transparency_data:
        return image
    layer = image.convert("RGBA")
    return Image.alpha_composite(Image.new("RGBA", layer.size, (*BACKGROUND, 255)), layer)
