"""How files that hold no arrays become inputs, as keywords: images, sound and text, ``--labels`` and ``--preview``."""

from collections.abc import Mapping
from dataclasses import fields
from pathlib import Path
from typing import Any

from qdqtool.samples.media.images.options import ImageOptions
from qdqtool.samples.media.sound.options import SoundOptions
from qdqtool.samples.media.text.options import TextOptions
from qdqtool.samples.read_options import ReadOptions

_IMAGES = {f"image_{each.name.removeprefix('pixel_')}": each.name for each in fields(ImageOptions)}
_SOUND = {f"sound_{each.name.removeprefix('sample_')}": each.name for each in fields(SoundOptions)}
_TEXT = {"tokenizer": "tokenizer", "text_length": "length", "text_pad_token": "pad_token"}
"""The field of the options by keyword: ``image_range`` is ``pixel_range``."""

MEDIA_KEYWORDS = (*_IMAGES, *_SOUND, *_TEXT, "labels", "preview")


def read_options(said: Mapping[str, Any]) -> ReadOptions:
    """Return the options that keywords ask for; others among them are passed over.

    Raises:
        ArgumentError: A value is illegal.
    """
    text = _of(_TEXT, said)
    if text.get("tokenizer") is not None:
        text["tokenizer"] = Path(text["tokenizer"])
    return ReadOptions(
        images=ImageOptions(**_of(_IMAGES, said)),
        sound=SoundOptions(**_of(_SOUND, said)),
        text=TextOptions(**text),
        labels=said.get("labels"),
        preview=said.get("preview"),
    )


def _of(names: Mapping[str, str], said: Mapping[str, Any]) -> dict[str, Any]:
    return {names[name]: _as_field(name, value) for name, value in said.items() if name in names}


def _as_field(name: str, value: Any) -> Any:
    if name == "image_pad_color" and isinstance(value, int):
        return (value,) * 3
    if name in {"image_mean", "image_std"} and isinstance(value, float | int):
        return (float(value),)
    return tuple(value) if isinstance(value, list | tuple) else value
