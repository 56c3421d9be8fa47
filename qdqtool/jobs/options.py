"""The options of the commands that quantize and check, including the options of data and recipe.

Commands, Python functions and ``convert`` take their options from these classes. :mod:`qdqtool.jobs.request` turns the
values into requests.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from qdqtool.accuracy.checking.limits import Gates
from qdqtool.engines.options import GPUS, SM
from qdqtool.models.options import ExternalData, HalfType, IoTypes, OperatorOptions, Profile, WeightStorage
from qdqtool.models.plugins import PluginOperator, plugin_ops_option
from qdqtool.options import choice, comma_separated, file, listed, number, option, output, text
from qdqtool.quantization.planning.options import WHAT, HighPrecision, RecipeOptions
from qdqtool.samples.options import CONSTANT_DATA, DATA, SEVERAL, SHAPES, CalibrationData, MeasuredData, samples_option

METRIC = text("NAME[:OUTPUT]", offers="accuracy.task_metrics.metrics", keyword="Metric")
WEIGHTS = choice("packed", "qdq", values=WeightStorage)
EXTERNAL_DATA = choice("auto", "always", "never", values=ExternalData)
_WEIGHTS = "Store quantized constants as codes behind a DQ, or as float behind Q and DQ."
_EXTERNAL_DATA = "Store weights in a second file: auto does so if the input does or the model exceeds 2 GiB."
_STRICT: bool = option(False, "Exit with 1 if the verdict is a warning.", section="Report", only="command line")
_FORCE = "Use the ranges although they were found on another model or other data."


@dataclass(init=False, repr=False, eq=False)
class CalibrateCommand:
    """Options of ``calibrate``."""

    data: CalibrationData = field(default_factory=CalibrationData)
    shard: str | None = option(
        None,
        "Run only the I-th of N equal parts of the samples; see `qdqtool merge`.",
        text("I/N"),
        section="Data",
        only="command line",
    )
    dask: str | None = option(
        None,
        "Run the samples on the workers of a Dask cluster: tcp://HOST:PORT or tls://HOST:PORT of its scheduler, or "
        "local:N for N processes on this machine. The ranges are the same.",
        text("SCHEDULER"),
        section="Where it runs",
    )
    all_tensors: bool = option(
        False,
        "Measure every float tensor, also those that stay unquantized: DLA needs a scale for each (`qdqtool explain "
        "jetson`).",
        section=WHAT,
    )
    recipe: RecipeOptions = field(default_factory=RecipeOptions)
    operators: OperatorOptions = field(default_factory=OperatorOptions)


@dataclass(init=False, repr=False, eq=False)
class CacheOptions:
    """Options for existing ranges."""

    calibration_cache: Path | None = option(
        None,
        "Use the ranges that `qdqtool calibrate` or another tool wrote. With --calib-data too, that data only measures "
        "the accuracy.",
        file("RANGES"),
        section="Data",
    )
    force: bool = option(False, _FORCE, section="Data")


@dataclass(init=False, repr=False, eq=False)
class QuantizeCommand:
    """Options of ``quantize_model``."""

    data: CalibrationData = field(default_factory=CalibrationData)
    validation_data: Any = option(
        None,
        "Other samples to measure the accuracy on. Without them, a fifth of --calib-data is held out for that.",
        DATA,
        section="Data",
    )
    cache: CacheOptions = field(default_factory=CacheOptions)
    recipe: RecipeOptions = field(default_factory=RecipeOptions)
    high_precision_dtype: HighPrecision = option(
        HighPrecision.AUTO,
        "Type of unquantized tensors: fp32 leaves them unchanged, fp16 and bf16 convert tensors whose values fit. auto "
        "is fp16 for the targets tensorrt and tensorrt-rtx, and fp32 for others. Inputs and outputs keep their types.",
        choice("auto", "fp32", "fp16", "bf16", values=HighPrecision),
        section=WHAT,
    )
    compute_capabilities: str | None = option(
        None, "GPUs that the model is for, such as 8.6,8.9; they must support the mode.", GPUS, flags=SM, section=WHAT
    )
    weights: WeightStorage = option(WeightStorage.PACKED, _WEIGHTS, WEIGHTS, section="Result")
    external_data: ExternalData = option(ExternalData.AUTO, _EXTERNAL_DATA, EXTERNAL_DATA, section="Result")
    save_ranges: Path | None = option(None, "Write the ranges too.", output("FILE"), section="Result")
    save_plan: Path | None = option(
        None, "Write the plan too (`qdqtool explain files`).", output("FILE.json"), section="Result"
    )
    min_sqnr: float | None = option(
        None,
        "Lowest SQNR of each output on hold-out samples; to reach it, the layers that cost most stay in float.",
        number("DB"),
        section="Accuracy",
    )
    metric: Any = option(
        None,
        "Compute a task metric with the array 'labels' in the data: one of `qdqtool check`, or your function "
        "SCRIPT.py:func.",
        METRIC,
        section="Accuracy",
    )
    max_metric_loss: float | None = option(
        None,
        "Largest loss of --metric against the float model on hold-out samples; to keep it, layers stay in float.",
        number("X"),
        section="Accuracy",
    )
    fallback: str | None = option(
        None,
        "With a limit: format of layers that are too inaccurate in the mode's format, int8 or fp8. A layer stays float "
        "only if this is not enough.",
        text("FORMAT"),
        section="Accuracy",
    )
    pareto: Path | None = option(
        None,
        "With a limit: write the curve of accuracy against the share that is quantized.",
        output("FILE.json"),
        section="Accuracy",
    )
    sensitivity: Path | None = option(
        None,
        "With a limit: read and update the measurements of `qdqtool sensitivity -o` or an interrupted search.",
        output("FILE.json"),
        section="Accuracy",
    )
    partial: bool = option(
        False,
        "If ONNX Runtime does not know an operator, quantize only the layers in front of it.",
        section=WHAT,
    )
    list_matches: bool = option(
        False,
        "List the nodes that would be quantized and the matches of each pattern; run and write nothing.",
        section=WHAT,
        only="command line",
    )
    strict: bool = _STRICT
    operators: OperatorOptions = field(default_factory=OperatorOptions)


@dataclass(init=False, repr=False, eq=False)
class SensitivityCommand:
    """Options of ``measure_sensitivity``."""

    output: Path | None = option(
        None,
        "Write the measurements for `qdqtool quantize --min-sqnr DB --sensitivity FILE.json`.",
        output("FILE.json"),
        flags=("-o", "--output"),
        section="Report",
    )
    metric: Any = option(
        None,
        "Also measure each layer with a task metric: one of `qdqtool check`, or your function SCRIPT.py:func.",
        METRIC,
        section="Report",
    )
    calibration_cache: Path | None = option(
        None, "File of existing calibration ranges.", file("RANGES"), section="Data", only="python"
    )
    force: bool = option(False, _FORCE, section="Data", only="python")
    data: CalibrationData = field(default_factory=CalibrationData)
    recipe: RecipeOptions = field(default_factory=RecipeOptions)
    operators: OperatorOptions = field(default_factory=OperatorOptions)


@dataclass(init=False, repr=False, eq=False)
class CastCommand:
    """Options of ``cast_model``."""

    to: HalfType = option(
        HalfType.FP16,
        "The type that replaces float32: float16, or bfloat16 with the range of float32 and fewer bits.",
        choice("fp16", "bf16", values=HalfType),
    )
    min_sqnr: float | None = option(
        None,
        "Lowest SQNR of each output against MODEL without its Q/DQ; to keep it, the nodes that cost most stay float32."
        "  [default with data: 40 for fp16, 25 for bf16, and at most 0.5 dB less than before for a model with Q/DQ]",
        number("DB"),
    )
    nodes_to_exclude: tuple[str, ...] = option(
        (), "Keep nodes in float32 whose name or output name matches; repeatable.", listed("GLOB", offers="node_names")
    )
    op_types_to_exclude: tuple[str, ...] = option(
        (), "Keep these operators in float32; repeatable.", listed("GLOB", offers="op_types")
    )
    io_types: IoTypes = option(
        IoTypes.KEEP,
        "Types of float inputs and outputs; quantized makes them the codes of the first Q and the last DQ.",
        choice("keep", "fp16", "bf16", "fp32", "quantized", values=IoTypes),
    )
    external_data: ExternalData = option(ExternalData.AUTO, _EXTERNAL_DATA, EXTERNAL_DATA)
    calibration_cache: Path | None = option(
        None,
        "Also use the largest values in the ranges that `qdqtool calibrate` wrote.",
        file("RANGES"),
        section="Data",
    )
    samples_and_shapes: MeasuredData = field(default_factory=MeasuredData)
    operators: OperatorOptions = field(default_factory=OperatorOptions)


@dataclass(init=False, repr=False, eq=False)
class CheckCommand:
    """Options of ``check_model``."""

    baseline: Path | None = option(
        None,
        "The float model to compare with; it runs on the same inputs.",
        file("FLOAT.onnx"),
        section="What is compared",
        only="command line",
    )
    samples_and_shapes: MeasuredData = field(default_factory=MeasuredData)
    engine: Path | None = option(
        None,
        "Run this engine on the GPU of this machine, and compare its outputs with the reference. Not yet tested "
        "on a GPU: `qdqtool explain build`.",
        file("ENGINE"),
        section="What is compared",
    )
    outputs: Path | None = option(
        None,
        "Outputs for the same --data that were computed elsewhere, to compare with the reference.",
        file("FILE.npz"),
        section="What is compared",
    )
    save_outputs: Path | None = option(
        None,
        "Write the outputs of the reference, in the layout that --outputs reads.",
        output("FILE.npz", is_binary=True),
        section="What is compared",
    )
    metric: Any = option(
        None,
        "Compute a task metric with the array 'labels' in --data: top-1, perplexity, or your function SCRIPT.py:func.",
        METRIC,
        section="What is compared",
    )
    gates: Gates = field(default_factory=Gates)
    plugin_ops: tuple[PluginOperator, ...] = plugin_ops_option("What is compared")
    profile: Profile = option(
        Profile.SEMANTIC,
        "Compare outputs as ONNX defines them, or as ONNX Runtime computes them with its default optimizations.",
        choice("semantic", "deployed", values=(Profile.SEMANTIC, Profile.DEPLOYED)),
        section="What is compared",
    )
    blame: bool = option(
        False, "Name the layers that add most noise to the worst output, even if every gate holds.", section="Report"
    )
    strict: bool = _STRICT
    operators: OperatorOptions = field(default_factory=OperatorOptions)


@dataclass(init=False, repr=False, eq=False)
class InsertCommand:
    """Options of ``insert_plan`` and ``insert_encodings``."""

    targets: Sequence[str] = option(
        (),
        "Refuse a result that one of these targets does not support: onnx, ort-cpu, tensorrt, tensorrt-rtx, or a "
        "release such as tensorrt-10.8. Without it, the report only lists the targets without support.",
        comma_separated("TARGET,...", offers="targets_and_releases"),
        flags=("--target",),
    )
    weights: WeightStorage = option(WeightStorage.PACKED, _WEIGHTS, WEIGHTS)
    external_data: ExternalData = option(ExternalData.AUTO, _EXTERNAL_DATA, EXTERNAL_DATA)
    verify: bool = option(
        False,
        "If the opset is raised, run the model before and after: the outputs in ONNX Runtime must have equal bits.",
    )
    input_shapes: Mapping[str, tuple[int, ...]] = option(
        {}, f"Shapes of dynamic inputs for --verify; {SEVERAL}", SHAPES
    )
    force: bool = option(False, "Insert the plan although it was made for another model.")
    operators: OperatorOptions = field(default_factory=OperatorOptions)


@dataclass(init=False, repr=False, eq=False)
class NormalizeCommand:
    """Options of ``normalize_model``."""

    data: Any = samples_option("Samples to compare the outputs on, as for 'qdqtool check'.  [default: 4 random ones]")
    allow_constant_data: bool = option(False, CONSTANT_DATA)
    input_shapes: Mapping[str, tuple[int, ...]] = option(
        {}, f"Fix the shape of an input for the comparison of the outputs; {SEVERAL}", SHAPES
    )
    external_data: ExternalData = option(ExternalData.AUTO, _EXTERNAL_DATA, EXTERNAL_DATA)
    operators: OperatorOptions = field(default_factory=OperatorOptions)


@dataclass(init=False, repr=False, eq=False)
class StripCommand:
    """Options of ``strip_model``."""

    external_data: ExternalData = option(ExternalData.AUTO, _EXTERNAL_DATA, EXTERNAL_DATA)
    drop_clipping: bool = option(
        False, "Write the model even if a Q may replace a Relu or Clip that cannot be restored."
    )
    operators: OperatorOptions = field(default_factory=OperatorOptions)
