"""How images become inputs, as keywords: those of ``--image-*``, ``--labels`` and ``--preview``."""

from collections.abc import Mapping
from dataclasses import fields
from typing import Any

from qdqtool.data.images.options import ImageOptions
from qdqtool.data.read_options import ReadOptions

_FIELDS = {f"image_{each.name.removeprefix('pixel_')}": each.name for each in fields(ImageOptions)}
"""The field of :class:`~qdqtool.ImageOptions` of each keyword: ``image_range`` is ``pixel_range``."""
IMAGE_KEYWORDS = (*_FIELDS, "labels", "preview")


def read_options(said: Mapping[str, Any]) -> ReadOptions:
    """Return the options that keywords ask for; others among them are passed over.

    Raises:
        ArgumentError: A value is illegal.
    """
    images = {_FIELDS[name]: _as_field(name, value) for name, value in said.items() if name in _FIELDS}
    return ReadOptions(images=ImageOptions(**images), labels=said.get("labels"), preview=said.get("preview"))


def _as_field(name: str, value: Any) -> Any:
    if name == "image_pad_color" and isinstance(value, int):
        return (value,) * 3
    if name in {"image_mean", "image_std"} and isinstance(value, float | int):
        return (float(value),)
    return tuple(value) if isinstance(value, list | tuple) else value
