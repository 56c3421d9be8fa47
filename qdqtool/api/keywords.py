"""The keywords of each function. Generated from the options: ``make generated`` writes it."""

from collections.abc import Mapping, Sequence
from typing import Literal, TypedDict

from qdqtool.api.any_data import DataLike, FileName, Metric, Shapes, Values


class OperatorKeywords(TypedDict, total=False):
    """Options that calibrate, cast, check, convert, insert, quantize, sensitivity, strip share."""

    ort_custom_ops: Sequence[FileName]
    stand_in: FileName | None


class DataKeywords(TypedDict, total=False):
    """Options that calibrate, cast, check, convert, quantize, run, sensitivity share."""

    allow_constant_data: bool
    samples: int | None
    image_preset: str | None
    image_resize: Literal["crop", "letterbox", "stretch", "none"] | None
    image_interpolation: Literal["nearest", "bilinear", "bicubic", "lanczos", "box", "opencv-bilinear"] | None
    image_crop_ratio: float | None
    image_pad_color: int | Sequence[int] | None
    image_size: Sequence[int] | None
    image_channels: Literal["rgb", "bgr", "grey"] | None
    image_layout: Literal["nchw", "nhwc"] | None
    image_range: Literal["0..1", "0..255", "-1..1"] | None
    image_mean: float | Sequence[float] | None
    image_std: float | Sequence[float] | None
    labels: FileName | None
    preview: FileName | None
    sound_rate: int | None
    sound_length: int | None
    sound_hop: int | None
    sound_range: Literal["-1..1", "int16"] | None
    tokenizer: FileName | None
    text_length: int | None
    text_pad_token: str | None


class CalibrationKeywords(OperatorKeywords, DataKeywords, total=False):
    """Options that calibrate, convert, quantize, sensitivity share."""

    random_calibration: bool
    seed: int | None
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
    plugin_ops: Sequence[str]
    equalize: bool
    bias_correction: bool
    smoothquant: float | Literal["auto", "off"]
    awq: Literal["auto", "off"]
    float_layer: bool


class AccuracyKeywords(CalibrationKeywords, total=False):
    """Options that convert, quantize share."""

    validation_data: DataLike | None
    calibration_cache: FileName | None
    force: bool
    high_precision_dtype: Literal["auto", "fp32", "fp16", "bf16"]
    weights: Literal["packed", "qdq"]
    external_data: Literal["auto", "always", "never"]
    min_sqnr: float | None
    metric: Metric | None
    max_metric_loss: float | None
    fallback: str | None
    pareto: FileName | None
    sensitivity: FileName | None
    compute_capabilities: Sequence[str] | None
    reports: Mapping[Literal["text", "json", "html"], FileName]


class EngineKeywords(TypedDict, total=False):
    """Options that build, convert share."""

    min_shapes: Shapes
    opt_shapes: Shapes
    max_shapes: Shapes
    min_shape_values: Shapes
    opt_shape_values: Shapes
    max_shape_values: Shapes
    profiles: Sequence[Mapping[str, Shapes]]
    builder_optimization_level: int | None
    mem_pool_size: Mapping[str, int]
    timing_cache_file: FileName | None
    error_on_timing_cache_miss: bool
    refit: bool
    strip_weights: bool
    version_compatible: bool
    exclude_lean_runtime: bool
    weight_streaming: bool
    plugins: Sequence[FileName]
    serialize_plugins: bool
    require_precision: Sequence[str]
    locked: FileName | None
    sign: FileName | None
    export_layer_info: FileName | None
    verbose_log: FileName | None
    timeout: float


class GateKeywords(TypedDict, total=False):
    """Options that check, convert share."""

    save_outputs: FileName | None
    min_cosine: float | None
    min_agreement: float | None
    max_steps: float | None
    max_weight_steps: float
    blame: bool


class BuildKeywords(EngineKeywords, total=False):
    """Options of ``build_engine``."""

    input_shapes: Shapes
    input_values: Values
    calib_data: DataLike | None
    compute_capabilities: Sequence[str] | None
    plugin_ops: Sequence[str]
    skip_validate: bool
    reports: Mapping[Literal["text", "json", "html"], FileName]


class CalibrateKeywords(CalibrationKeywords, total=False):
    """Options of ``calibrate``."""

    dask: str | None
    all_tensors: bool


class CastKeywords(OperatorKeywords, DataKeywords, total=False):
    """Options of ``cast_model``."""

    to: Literal["fp16", "bf16"]
    min_sqnr: float | None
    nodes_to_exclude: Sequence[str]
    op_types_to_exclude: Sequence[str]
    io_types: Literal["keep", "fp16", "bf16", "fp32", "quantized"]
    external_data: Literal["auto", "always", "never"]
    calibration_cache: FileName | None
    seed: int
    input_shapes: Shapes
    input_values: Values


class CheckKeywords(OperatorKeywords, DataKeywords, GateKeywords, total=False):
    """Options of ``check_model``."""

    seed: int
    input_shapes: Shapes
    input_values: Values
    engine: FileName | None
    outputs: FileName | None
    metric: Metric | None
    min_sqnr: float | None
    max_metric_loss: float | None
    plugin_ops: Sequence[str]
    profile: Literal["semantic", "deployed"]
    reports: Mapping[Literal["text", "json", "html"], FileName]


class InsertKeywords(OperatorKeywords, total=False):
    """Options of ``insert_plan``."""

    targets: Sequence[str]
    weights: Literal["packed", "qdq"]
    external_data: Literal["auto", "always", "never"]
    verify: bool
    input_shapes: Shapes
    force: bool


class QuantizeKeywords(AccuracyKeywords, total=False):
    """Options of ``quantize_model``."""

    save_ranges: FileName | None
    save_plan: FileName | None
    partial: bool


class RunKeywords(DataKeywords, total=False):
    """Options of ``run_engine``."""


class SensitivityKeywords(CalibrationKeywords, total=False):
    """Options of ``measure_sensitivity``."""

    output: FileName | None
    metric: Metric | None
    calibration_cache: FileName | None
    force: bool
    reports: Mapping[Literal["text", "json", "html"], FileName]


class StripKeywords(OperatorKeywords, total=False):
    """Options of ``strip_model``."""

    external_data: Literal["auto", "always", "never"]
    drop_clipping: bool


class ConvertKeywords(AccuracyKeywords, EngineKeywords, GateKeywords, total=False):
    """Options of ``convert``."""

    no_build: bool
    backend: Literal["auto", "tensorrt", "tensorrt-rtx"]
    build_skip_validate: bool
    validate_targets: Sequence[str]
    select: Sequence[str] | None
    extend_select: Sequence[str]
    ignore: Sequence[str]
    fail_on: Literal["error", "warning", "never"] | None
    parser: bool | None
    validate_baseline: FileName | None
    check_min_sqnr: float | None
    check_max_metric_loss: float | None
    check_profile: Literal["semantic", "deployed"]
