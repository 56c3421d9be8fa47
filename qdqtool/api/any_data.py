"""Data as Python code has it: a path, arrays, an iterable of samples, or a request of the library."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import fields, replace
from pathlib import Path
from typing import Any, TypeAlias

from qdqtool.errors import ArgumentError, UsageError
from qdqtool.quantization.preparation.cached_ranges import CachedRanges
from qdqtool.samples.in_memory import DataPlace, InMemoryData, hold_data
from qdqtool.samples.media.images.options import ImageOptions
from qdqtool.samples.media.sound.options import SoundOptions
from qdqtool.samples.media.text.options import TextOptions
from qdqtool.samples.read_options import ReadOptions
from qdqtool.samples.request import DataRequest, FileData, RandomData

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


DataLike: TypeAlias = str | Path | FileData | RandomData | InMemoryData | Mapping[str, Any] | Iterable[Any]
"""Data: a path, an array, a dict of arrays by input name, an iterable of arrays or of such dicts, a DataLoader, or a
request that says more (:class:`~qdqtool.FileData`, :class:`~qdqtool.RandomData`)."""


def as_place(data: Any) -> DataPlace:
    """Return where data is.

    Raises:
        ArgumentError: It is of no accepted kind.
        UsageError: An array has no numbers.
    """
    if isinstance(data, str | Path):
        return Path(data)
    return data if isinstance(data, InMemoryData) else hold_data(data)


def take_data(data: Any, given: dict[str, Any]) -> FileData | RandomData | None:
    """Return calibration data; the keywords that describe it are taken out of ``given``.

    Raises:
        ArgumentError: The data is of no accepted kind, or says itself what a keyword says.
        UsageError: Keywords contradict each other or the data.
    """
    said: dict[str, Any] = {
        name: given.pop(name)
        for name in ("samples", "allow_constant_data", "random_calibration", "seed", *MEDIA_KEYWORDS)
        if name in given
    }
    if isinstance(data, FileData | RandomData):
        _refuse_twice(data, said)
        return replace(data, path=as_place(data.path)) if isinstance(data, FileData) else data
    is_random = said.get("random_calibration", False)
    if is_random and data is not None:
        raise UsageError("data and random_calibration exclude each other")
    _refuse_reading(data, said)
    if "seed" in said and not is_random:
        raise UsageError("seed goes with random_calibration only")
    if is_random:
        return RandomData(seed=said.get("seed", 0), samples=said.get("samples"))
    if data is None:
        if "samples" in said:
            raise UsageError("samples goes with data only")
        return None
    allow_constant = said.get("allow_constant_data", False)
    return FileData(
        path=as_place(data), samples=said.get("samples"), allow_constant=allow_constant, options=read_options(said)
    )


def take_source(data: Any, given: dict[str, Any]) -> FileData | RandomData | CachedRanges | None:
    """Return calibration data or ranges from a file; their keywords are taken out of ``given``.

    Raises:
        ArgumentError: As :func:`take_data`.
        UsageError: As :func:`take_data`.
    """
    said: dict[str, Any] = {name: given.pop(name) for name in ("calibration_cache", "force") if name in given}
    if isinstance(data, CachedRanges):
        _refuse_twice(data, {**said, **{name: given[name] for name in ("samples", "seed") if name in given}})
        return data
    samples = take_data(data, given)
    if "calibration_cache" not in said:
        if "force" in said:
            raise UsageError("force goes with calibration_cache only")
        return samples
    if isinstance(samples, RandomData):
        raise UsageError("calibration_cache excludes random_calibration")
    return CachedRanges(path=said["calibration_cache"], force=said.get("force", False), data=samples)


def take_request(data: Any, given: dict[str, Any]) -> DataRequest:
    """Return the data of a check; its keywords are taken out of ``given``.

    Raises:
        ArgumentError: The data is of no accepted kind, or says itself what a keyword says.
    """
    names = {"allow_constant_data": "allow_constant", "input_shapes": "input_shapes", "input_values": "input_values"}
    names |= {"samples": "samples", "seed": "seed"}
    said = {name: given.pop(name) for name in (*names, *MEDIA_KEYWORDS) if name in given}
    if isinstance(data, DataRequest | FileData | RandomData):
        _refuse_twice(data, said)
    if isinstance(data, DataRequest):
        return data if data.path is None else replace(data, path=as_place(data.path))
    if isinstance(data, FileData):
        return DataRequest(
            path=as_place(data.path), samples=data.samples, allow_constant=data.allow_constant, options=data.options
        )
    if isinstance(data, RandomData):
        return DataRequest(seed=data.seed, samples=data.samples)
    converted: dict[str, Callable[[Any], Any]] = {"input_shapes": as_shapes, "input_values": as_values}
    _refuse_reading(data, said)
    found: dict[str, Any] = {
        names[name]: converted.get(name, _unchanged)(value) for name, value in said.items() if name in names
    }
    return DataRequest(path=None if data is None else as_place(data), options=read_options(said), **found)


def _refuse_reading(data: Any, said: Mapping[str, Any]) -> None:
    given = [name for name in MEDIA_KEYWORDS if name in said]
    if given and data is None:
        raise UsageError(f"{given[0]} goes with data only: files that hold no arrays")


def as_shapes(given: Mapping[str, Any]) -> dict[str, tuple[int, ...]]:
    """Return shapes by input name as the options of jobs have them."""
    return {name: tuple(shape) for name, shape in given.items()}


def as_values(given: Mapping[str, Any]) -> dict[str, tuple[float, ...]]:
    """Return values by input name as the options of jobs have them; one number is a list of one."""
    return {name: (float(value),) if isinstance(value, int | float) else tuple(value) for name, value in given.items()}


def _unchanged(value: Any) -> Any:
    return value


def _refuse_twice(data: object, said: Mapping[str, object]) -> None:
    if said:
        kind = type(data).__name__
        raise ArgumentError(f"data is a {kind}, and {next(iter(said))} is given beside it", hint=f"say it in {kind}(…)")
