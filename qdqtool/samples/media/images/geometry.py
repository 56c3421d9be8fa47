"""Bring an image to the size of an input: crop, letterbox or stretch, with Pillow's filters or OpenCV's arithmetic."""

from typing import TYPE_CHECKING, Final

import numpy as np

from qdqtool.errors import UsageError
from qdqtool.numerics.dtypes import Array
from qdqtool.samples.media_options import Interpolation, PixelRange
from qdqtool.samples.preprocessing import ImagePreprocessing

if TYPE_CHECKING:
    from PIL import Image


SPANS: Final[dict[PixelRange, tuple[float, float]]] = {"0..1": (255, 0), "0..255": (1, 0), "-1..1": (127.5, 1)}
"""For each range: the divisor of the pixels, and the number that is subtracted afterwards."""


def to_values(pixels: Array, how: ImagePreprocessing) -> Array:
    """Return the values of one image in float32: ``((pixel / divisor - shift) - mean) / std``, rounded at each step.

    Args:
        pixels: uint8 of shape [H, W, 3] in the order red, green, blue, or [H, W].
        how: The preprocessing.

    Returns:
        float32 of shape [C, H, W] or [H, W, C], depending on the layout.
    """
    values = np.atleast_3d(pixels)[..., :: -1 if how.channels == "bgr" else 1].astype(np.float32)
    divisor, shift = SPANS[how.pixel_range]
    if divisor != 1:
        values /= np.float32(divisor)
    if shift:
        values -= np.float32(shift)
    if how.mean is not None:
        values -= np.array(how.mean, np.float32)
    if how.std is not None:
        values /= np.array(how.std, np.float32)
    return np.ascontiguousarray(values.transpose(2, 0, 1) if how.layout == "nchw" else values)


def to_pixels(values: Array, how: ImagePreprocessing) -> Array:
    """Return the rounded pixels of preprocessed values: the inverse of :func:`to_values`.

    Args:
        values: Preprocessed values of shape [C, H, W] or [H, W, C], depending on the layout.
        how: The preprocessing.

    Returns:
        uint8 of shape [H, W, 3] in the order red, green, blue, or [H, W, 1].
    """
    found = np.asarray(values, np.float64)
    found = found.transpose(1, 2, 0) if how.layout == "nchw" else found
    divisor, shift = SPANS[how.pixel_range]
    found = found * np.array(how.std or (1.0,)) + np.array(how.mean or (0.0,))
    pixels: Array = np.clip(np.rint((found + shift) * divisor), 0, 255).astype(np.uint8)
    return pixels[..., :: -1 if how.channels == "bgr" else 1]


def in_type(values: Array, dtype: np.dtype[np.generic], name: str) -> Array:
    """Convert float32 values to the type of an input. For float16 they stay float32; another step converts them.

    Raises:
        UsageError: The type is an integer type, and a value is not an integer or is outside the range of that type.
    """
    if dtype.kind == "f":
        return values if dtype == np.float16 else values.astype(dtype, copy=False)
    if dtype.kind not in "iu":
        raise UsageError(f"input '{name}' has type {dtype}, which images do not have")
    limits = np.iinfo(dtype.name)
    if not np.array_equal(values, np.rint(values)) or values.min() < limits.min or values.max() > limits.max:
        raise UsageError(
            f"input '{name}' has type {dtype}, and the preprocessed images have values from {values.min():g} to "
            f"{values.max():g}, which are not all integers of that type",
            hint="keep the pixels integers: `--image-range 0..255`, no --image-std, and only integers in --image-mean",
        )
    return values.astype(dtype)


WEIGHT_BITS = 11
"""Number of bits of the weights with which OpenCV interpolates 8-bit images."""


def fit(image: "Image.Image", how: ImagePreprocessing, file: object) -> "Image.Image":
    """Resize or pad the image to the height and width of the input.

    Args:
        image: The image, in mode ``RGB`` or ``L``.
        how: The preprocessing.
        file: File name, for messages.

    Raises:
        UsageError: ``resize`` is ``none``, and the image has another size.
    """
    height, width = how.size
    if how.resize == "crop":
        return _crop(image, how)
    if how.resize == "letterbox":
        return _letterbox(image, how)
    if how.resize == "stretch":
        return scaled(image, height, width, how.interpolation)
    if image.size != (width, height):
        raise UsageError(
            f"{file} is {image.height}x{image.width} (height x width); the input takes {height}x{width}",
            hint="`--image-resize stretch`, `--image-resize crop` or `--image-resize letterbox` changes the size",
        )
    return image


def _crop(image: "Image.Image", how: ImagePreprocessing) -> "Image.Image":
    """Resize the image to cover the input and cut out the middle, rounded as by torchvision's Resize and CenterCrop."""
    (height, width), ratio = how.size, how.crop_ratio or 1.0
    least_height, least_width = round(height / ratio), round(width / ratio)
    if least_height * image.width >= least_width * image.height:
        new = least_height, max(least_width, int(least_height * image.width / image.height))
    else:
        new = max(least_height, int(least_width * image.height / image.width)), least_width
    large = scaled(image, *new, how.interpolation)
    top, left = round((large.height - height) / 2), round((large.width - width) / 2)
    return large.crop((left, top, left + width, top + height))


def _letterbox(image: "Image.Image", how: ImagePreprocessing) -> "Image.Image":
    """Resize the image to fit inside the input and fill the border, rounded as by LetterBox of ultralytics."""
    from PIL import Image

    height, width = how.size
    ratio = min(height / image.height, width / image.width)
    new = max(1, round(image.height * ratio)), max(1, round(image.width * ratio))
    small = scaled(image, *new, how.interpolation)
    color = how.pad_color or (0, 0, 0)
    ground = Image.new("RGB", (width, height), color)
    ground = ground.convert("L") if image.mode == "L" else ground
    # If the number of border rows or columns is odd, the bottom or the right border gets one more.
    ground.paste(small, ((width - small.width) // 2, (height - small.height) // 2))
    return ground


def scaled(image: "Image.Image", height: int, width: int, interpolation: Interpolation) -> "Image.Image":
    """Return the image resized; if it has the size already, return the same image."""
    from PIL import Image

    if image.size == (width, height):
        return image
    if interpolation == "opencv-bilinear":
        return Image.fromarray(opencv_bilinear(np.asarray(image), height, width))
    return image.resize((width, height), Image.Resampling[interpolation.upper()])


def opencv_bilinear(pixels: Array, height: int, width: int) -> Array:
    """Resize pixels as ``cv2.resize`` with INTER_LINEAR does, in the same fixed-point arithmetic.

    Each pixel is interpolated from the four nearest pixels, without averaging, even when the image shrinks.

    Args:
        pixels: uint8 of shape [H, W] or [H, W, C].
        height: New height.
        width: New width.

    Returns:
        uint8 of shape [height, width] or [height, width, C].
    """
    (low, high, weight), rows = _taps(pixels.shape[1], width), pixels.astype(np.int32)
    weight = weight.reshape(-1, *[1] * (pixels.ndim - 2))
    # The horizontal pass gives 19 bits; OpenCV drops 4 of them so that the vertical pass fits in 32 bits.
    wide = (rows[:, low] * ((1 << WEIGHT_BITS) - weight) + rows[:, high] * weight) >> 4
    low, high, weight = _taps(pixels.shape[0], height)
    weight = weight.reshape(-1, *[1] * (pixels.ndim - 1))
    upper, lower = wide[low] * ((1 << WEIGHT_BITS) - weight), wide[high] * weight
    found: Array = (((upper >> 16) + (lower >> 16) + 2) >> 2).astype(np.uint8)
    return found


def _taps(old: int, new: int) -> tuple[Array, Array, Array]:
    """Return for each new position its two old neighbors, and the weight of the second in units of 1/2048."""
    place = ((np.arange(new) + 0.5) * (old / new) - 0.5).astype(np.float32)
    low = np.floor(place).astype(np.int64)
    part = np.where((low < 0) | (low >= old - 1), np.float32(0), place - low.astype(np.float32))
    low = np.clip(low, 0, old - 1)
    weight = np.rint(part * np.float32(1 << WEIGHT_BITS)).astype(np.int32)
    return low, np.minimum(low + 1, old - 1), weight
