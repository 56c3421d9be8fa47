"""Turn the pixels of an image into the values of an input, and back for the eye."""

from typing import Final

import numpy as np

from qdqtool.errors import UsageError
from qdqtool.numerics.dtypes import Array
from qdqtool.samples.media.images.options import ImagePreprocessing, PixelRange

SPANS: Final[dict[PixelRange, tuple[float, float]]] = {"0..1": (255, 0), "0..255": (1, 0), "-1..1": (127.5, 1)}
"""By what pixels are divided, and what is subtracted then."""


def to_values(pixels: Array, how: ImagePreprocessing) -> Array:
    """Return the values of one image in float32: ``((pixel / divisor - shift) - mean) / std``, rounded at each step.

    Args:
        pixels: uint8 of shape [H, W, 3] in the order red, green, blue, or [H, W].
        how: The preprocessing.

    Returns:
        float32 of shape [C, H, W] or [H, W, C], by the layout.
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
    """Return the pixels whose values these are, rounded: the inverse of :func:`to_values`.

    Args:
        values: Values of shape [C, H, W] or [H, W, C], by the layout.
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
    """Return float32 values in the type of an input; in float32 where that is float16, which is converted later.

    Raises:
        UsageError: The type holds integers, and a value is none, or none of its range.
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
            hint="give pixels as they are: `--image-range 0..255`, and integers, if any, as --image-mean",
        )
    return values.astype(dtype)
