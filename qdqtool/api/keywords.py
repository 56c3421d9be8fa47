"""The options of each command as keywords of its function, under the names that they have on the command line.

A type checker reads these classes; at run time :func:`checked` holds the given values against them.
"""

import collections.abc
import os
import types
import typing
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal, TypeAlias, TypedDict

import msgspec
import numpy as np

from qdqtool.api.any_data import DataLike
from qdqtool.errors import ArgumentError
from qdqtool.registry import suggestion
from qdqtool.samples.media.images.options import Channels, Interpolation, Layout, PixelRange, Resize
from qdqtool.samples.media.sound.options import SampleRange

FileName: TypeAlias = str | Path
Shapes: TypeAlias = Mapping[str, Sequence[int]]
Values: TypeAlias = Mapping[str, float | Sequence[float]]
Metric: TypeAlias = str | Callable[..., float]


class ReportKeywords(TypedDict, total=False):
    """Files that get the report too, by format: ``text``, ``json`` or ``html``."""

    reports: Mapping[Literal["text", "json", "html"], FileName]


class ImageKeywords(TypedDict, total=False):
    """How the images of a folder become inputs."""

    image_preset: str | None
    image_resize: Resize | None
    image_interpolation: Interpolation | None
    image_crop_ratio: float | None
    image_pad_color: int | Sequence[int] | None
    image_size: Sequence[int] | None
    image_channels: Channels | None
    image_layout: Layout | None
    image_range: PixelRange | None
    image_mean: float | Sequence[float] | None
    image_std: float | Sequence[float] | None
    labels: FileName | None
    preview: FileName | None


class MediaKeywords(ImageKeywords, total=False):
    """How files that hold no arrays become inputs: images, sound and text."""

    sound_rate: int | None
    sound_length: int | None
    sound_hop: int | None
    sound_range: SampleRange
    tokenizer: FileName | None
    text_length: int | None
    text_pad_token: str | None


class DataKeywords(MediaKeywords, total=False):
    """Which samples are used."""

    samples: int | None
    allow_constant_data: bool
    random_calibration: bool
    seed: int | None


class RecipeKeywords(TypedDict, total=False):
    """What is quantized, and how ranges become scales."""

    quantize_mode: str
    block_size: int | None
    calibration_method: str
    percentile: float | None
    target: str
    nodes_to_quantize: Sequence[str]
    nodes_to_exclude: Sequence[str]
    op_types_to_quantize: Sequence[str]
    op_types_to_exclude: Sequence[str]
    existing: Literal["refuse", "keep", "replace"]
    input_shapes: Shapes
    input_values: Values
    equalize: bool
    bias_correction: bool
    smoothquant: float | Literal["auto", "off"]
    awq: Literal["auto", "off"]
    float_layer: bool


class CalibrateKeywords(DataKeywords, RecipeKeywords, total=False):
    """Options of ``calibrate``."""

    dask: str | None


class QuantizationKeywords(DataKeywords, RecipeKeywords, total=False):
    """How a model is quantized, less the files that are written beside it."""

    calibration_cache: FileName | None
    force: bool
    validation_data: DataLike | None
    high_precision_dtype: Literal["fp32", "fp16"]
    weights: Literal["packed", "qdq"]
    external_data: Literal["auto", "always", "never"]
    min_sqnr: float | None
    metric: Metric | None
    max_metric_loss: float | None
    fallback: str | None
    pareto: FileName | None
    sensitivity: FileName | None


class QuantizeKeywords(QuantizationKeywords, ReportKeywords, total=False):
    """Options of ``quantize_model``."""

    save_ranges: FileName | None
    save_plan: FileName | None


class SensitivityKeywords(DataKeywords, RecipeKeywords, ReportKeywords, total=False):
    """Options of ``measure_sensitivity``."""

    metric: Metric | None
    output: FileName | None


class CheckKeywords(MediaKeywords, ReportKeywords, total=False):
    """Options of ``check_model``."""

    allow_constant_data: bool
    seed: int
    samples: int | None
    input_shapes: Shapes
    input_values: Values
    engine: FileName | None
    outputs: FileName | None
    save_outputs: FileName | None
    metric: Metric | None
    profile: Literal["semantic", "deployed"]
    min_sqnr: float | None
    min_cosine: float | None
    min_agreement: float | None
    max_steps: float | None
    max_weight_steps: float | None
    max_metric_loss: float | None


class InsertKeywords(TypedDict, total=False):
    """Options of ``insert_plan``."""

    targets: Sequence[str]
    weights: Literal["packed", "qdq"]
    external_data: Literal["auto", "always", "never"]
    verify: bool
    input_shapes: Shapes


class EngineKeywords(TypedDict, total=False):
    """How an engine is built."""

    min_shapes: Shapes
    opt_shapes: Shapes
    max_shapes: Shapes
    min_shape_values: Shapes
    opt_shape_values: Shapes
    max_shape_values: Shapes
    compute_capabilities: Sequence[str]
    builder_optimization_level: int | None
    mem_pool_size: Mapping[str, int]
    timing_cache_file: FileName | None
    error_on_timing_cache_miss: bool
    refit: bool
    strip_weights: bool
    version_compatible: bool
    exclude_lean_runtime: bool
    weight_streaming: bool
    require_precision: Sequence[str]
    locked: FileName | None
    sign: FileName | None
    export_layer_info: FileName | None
    verbose_log: FileName | None
    timeout: float


class BuildKeywords(EngineKeywords, ReportKeywords, total=False):
    """Options of ``build_engine``."""

    input_shapes: Shapes
    input_values: Values
    calib_data: DataLike | None
    skip_validate: bool


class ConvertKeywords(QuantizationKeywords, EngineKeywords, ReportKeywords, total=False):
    """Options of ``convert``."""

    no_build: bool
    backend: Literal["auto", "tensorrt", "tensorrt-rtx"]
    build_skip_validate: bool
    validate_targets: Sequence[str]
    validate_baseline: FileName | None
    select: Sequence[str] | None
    extend_select: Sequence[str]
    ignore: Sequence[str]
    fail_on: Literal["error", "warning", "never"]
    parser: bool | None
    save_outputs: FileName | None
    check_min_sqnr: float | None
    min_cosine: float | None
    min_agreement: float | None
    max_steps: float | None
    max_weight_steps: float | None
    check_max_metric_loss: float | None
    check_profile: Literal["semantic", "deployed"]
    blame: bool


_WORDS = {"array": "a list", "object": "a dict", "float": "a number", " got": " not"}
"""What a Python user calls what JSON calls otherwise."""


def checked(given: Mapping[str, Any], kind: type, function: str) -> dict[str, Any]:
    """Return keywords whose names and types were checked; None is as if the keyword was left out.

    Args:
        given: The keywords.
        kind: The class above that lists the legal ones.
        function: The function that got them, for messages.

    Raises:
        ArgumentError: A name is unknown, or a value has another type than its keyword.
    """
    hints = typing.get_type_hints(kind)
    for name in given:
        if name not in hints:
            raise ArgumentError(
                f"{function}() has no option '{name}'{suggestion(name, hints)}",
                hint=f"its options: {', '.join(sorted(hints))}",
            )
    return {name: _converted(name, value, hints[name]) for name, value in given.items() if value is not None}


def _converted(name: str, value: Any, hint: Any) -> Any:
    members = typing.get_args(hint) if isinstance(hint, types.UnionType) or _is_union(hint) else (hint,)
    if hint in {DataLike, DataLike | None}:
        return value
    if any(typing.get_origin(member) is collections.abc.Callable for member in members):
        return _metric(name, value)
    if Path in members:
        if not isinstance(value, str | os.PathLike):
            raise ArgumentError(f"{name} is {value!r}; it must be a path")
        return Path(value)
    try:
        return msgspec.convert(value.item() if isinstance(value, np.generic) else value, hint)
    except msgspec.ValidationError as error:
        raise ArgumentError(f"{name} is {value!r}; {_wanted(value, members, error)}") from None


def _is_union(hint: Any) -> bool:
    return typing.get_origin(hint) is typing.Union


def _metric(name: str, value: Any) -> Any:
    if not (isinstance(value, str) or callable(value)):
        raise ArgumentError(f"{name} is {value!r}; it must be the name of a metric, or a function")
    return value


def _wanted(value: Any, members: Sequence[Any], error: msgspec.ValidationError) -> str:
    """Return what a keyword takes, in words."""
    legal = [word for member in members if typing.get_origin(member) is Literal for word in typing.get_args(member)]
    if legal:
        numbers = "a number, " if float in members else ""
        near = suggestion(value, legal) if isinstance(value, str) else ""
        return f"legal: {numbers}{', '.join(map(repr, legal))}{near}"
    if isinstance(value, str) and typing.get_origin(members[0]) is Sequence:
        return f"it must be a list, such as [{value!r}]"
    words = str(error).partition(" - at")[0].replace(" | null", "").replace("`", "").replace("Expected", "it must be")
    for kind, word in _WORDS.items():
        words = words.replace(kind, word)
    return words
