"""Image files for tests, and an input that takes them."""

from pathlib import Path

import numpy as np
from PIL import Image

from qdqtool.numerics.dtypes import Array
from qdqtool.samples.preprocessing import ImagePreprocessing
from qdqtool.samples.signature import InputSpec

F32 = np.dtype(np.float32)


def picture(height: int, width: int, seed: int = 0, channels: int = 3) -> Array:
    """Random pixels of shape [height, width, channels], or [height, width] for one channel."""
    shape = (height, width, channels) if channels > 1 else (height, width)
    return np.random.default_rng(seed).integers(0, 256, shape, dtype=np.uint8)


def save_picture(path: Path, pixels: Array, **options: object) -> Path:
    """Write pixels to an image file, whose name gives the format."""
    path.parent.mkdir(parents=True, exist_ok=True)
    Image.fromarray(pixels).save(path, **options)
    return path


def image_spec(*shape: int | str | None, dtype: np.dtype[np.generic] = F32) -> tuple[InputSpec, ...]:
    """The one input ``x`` of a model."""
    return (InputSpec("x", dtype, shape),)


def preprocessing(size: tuple[int, int], **given: object) -> ImagePreprocessing:
    """A preprocessing that stretches to a size, with other values as given."""
    values = {
        "layout": "nchw",
        "channels": "rgb",
        "resize": "stretch",
        "interpolation": "bilinear",
        "crop_ratio": None,
        "pad_color": None,
        "pixel_range": "0..1",
        "mean": None,
        "std": None,
    }
    return ImagePreprocessing(size=size, **(values | given))
