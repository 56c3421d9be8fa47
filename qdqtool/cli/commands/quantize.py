"""``qdqtool quantize``: a float model and data in, the Q/DQ model out."""

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from qdqtool.cli.calibration import DATA, HOW, SELECTING, WHAT, data_options, make_data, make_recipe, recipe_options
from qdqtool.cli.completion import offer, units
from qdqtool.cli.media import LAYOUT as MEDIA_LAYOUT
from qdqtool.cli.media import OF_CALIBRATION, make_read_options, require_data
from qdqtool.cli.options import (
    OutputPath,
    emit,
    external_data_option,
    layer_progress,
    model_argument,
    output_format_option,
    output_option,
    verbosity_options,
    weights_option,
)
from qdqtool.cli.reports import has_reports, reports_option
from qdqtool.cli.sections import REPORT, Layout, SectionedCommand

if TYPE_CHECKING:
    from qdqtool.accuracy.search.accuracy_goal import AccuracyGoal
    from qdqtool.jobs.quantize import QuantizeOptions
    from qdqtool.quantization.planning.recipe import Recipe
    from qdqtool.quantization.preparation.cached_ranges import CachedRanges
    from qdqtool.samples.request import FileData, RandomData


LAYOUT = Layout(
    sections={
        "Result": ("output", "weights", "external_data", "save_ranges", "save_plan"),
        "Data": (*DATA, "validation_data", "calibration_cache", "force", "input_shapes", "input_values"),
        **MEDIA_LAYOUT,
        "What is quantized": (*WHAT, *SELECTING, "list_matches", "existing", "high_precision_dtype"),
        "Accuracy": ("min_sqnr", "metric", "max_metric_loss", "fallback", "sensitivity", "pareto"),
        "How": HOW,
        "Report": ("reports", *REPORT),
    },
    examples=(
        "qdqtool quantize model.onnx --calib-data images.npz -o model.int8.onnx",
        "qdqtool quantize model.onnx --quantize-mode int4 -o model.int4.onnx",
        "qdqtool quantize model.onnx --calibration-cache ranges.json -o out.onnx",
        "qdqtool quantize model.onnx --nodes-to-exclude '*head*' --list-matches",
    ),
)


@click.command(
    cls=SectionedCommand, layout=LAYOUT, short_help="Quantize a float model: decide, calibrate, insert, validate."
)
@model_argument()
@output_option("The quantized model to write.", required=False)
@data_options()
@click.option(
    "--validation-data",
    type=click.Path(path_type=Path),
    metavar="DATA",
    help="Other samples to measure the accuracy on. Without them, a fifth of --calib-data is held back for that.",
)
@click.option(
    "--calibration-cache",
    type=click.Path(path_type=Path),
    metavar="RANGES",
    help="Use the ranges that `qdqtool calibrate` or another tool wrote. With --calib-data as well, the data serves "
    "to measure the accuracy only.",
)
@click.option("--force", is_flag=True, help="Use the ranges although they were found on another model or other data.")
@recipe_options()
@click.option(
    "--high-precision-dtype",
    type=click.Choice(["fp32", "fp16"]),
    default="fp32",
    show_default=True,
    help="What stays float: as it is, or in float16 wherever that holds the values; inputs and outputs stay.",
)
@weights_option()
@external_data_option()
@click.option("--save-ranges", type=OutputPath(), metavar="FILE", help="Write the ranges too.")
@click.option(
    "--save-plan", type=OutputPath(), metavar="FILE.json", help="Write the plan too (`qdqtool explain plan`)."
)
@click.option(
    "--min-sqnr",
    type=float,
    metavar="DB",
    help="Every output keeps this SQNR on held-back samples: the layers that cost most stay in float.",
)
@click.option(
    "--metric",
    metavar="NAME[:OUTPUT]",
    shell_complete=offer(units("accuracy.task_metrics.metrics")),
    help="Measure the task by the array 'labels' in the data: a metric of `qdqtool check`, or your function "
    "SCRIPT.py:func.",
)
@click.option(
    "--max-metric-loss",
    type=float,
    metavar="X",
    help="--metric: it loses at most that against the float model, on held-back samples; layers stay in float for it.",
)
@click.option(
    "--fallback",
    metavar="FORMAT",
    help="With a limit: layers that leave the format of the mode get this one, int8 or fp8, and float only where that "
    "does not do.",
)
@click.option(
    "--pareto",
    type=OutputPath(),
    metavar="FILE.json",
    help="With a limit: write the curve of accuracy against the share that is quantized.",
)
@click.option(
    "--sensitivity",
    type=OutputPath(),
    metavar="FILE.json",
    help="With a limit: take what `qdqtool sensitivity -o` or an interrupted search measured, and keep it there.",
)
@click.option("--list-matches", is_flag=True, help="Show what would be quantized and what patterns match; no run.")
@reports_option()
@output_format_option()
@verbosity_options()
def command(*, model: Path, output: Path | None, output_format: str, list_matches: bool, **values: Any) -> None:
    """Quantize MODEL, a float model, with calibration data, or only its weights without.

    BatchNormalizations are folded if that provably changes nothing, pairs are placed where the target computes in int8,
    ranges are found on the data, and the result is written if it passes `qdqtool validate` for the target. The same
    input gives the same bytes. The report names every quantizable node that was left in float, and why.
    """
    from qdqtool.errors import UsageError
    from qdqtool.jobs import matches, quantize

    if list_matches:
        if has_reports(click.get_current_context()):
            raise UsageError("--report does not go with --list-matches: nothing is quantized")
        emit(matches.list_matches(model, _recipe(values)), output_format, "matches")
        return
    if output is None:
        raise UsageError("no output is named", hint="`-o OUT.onnx`; or `--list-matches` to see what would be done")
    data, options = make_request(values)
    with layer_progress() as (progress, tick):
        report = quantize.quantize_model(model, data, output, options, progress, tick)
    emit(report, output_format, "quantize")


def make_request(
    values: dict[str, Any],
) -> "tuple[FileData | RandomData | CachedRanges | None, QuantizeOptions]":
    """The data and options that the values of this command ask for; they are taken out of ``values``.

    ``save_ranges`` and ``save_plan`` may be missing.
    """
    from qdqtool.jobs.quantize import QuantizeOptions
    from qdqtool.models.graph.io.save import ExternalData
    from qdqtool.quantization.insertion.pair_edits import WeightStorage

    recipe = _recipe(values)
    validation = _validation(values)
    require_data(values, values["calib_data"] is not None or validation is not None)
    require_data(values, values["calib_data"] is not None, OF_CALIBRATION)
    data = _source(values, needed=recipe.mode.needs_ranges, measured=validation is not None)
    return data, QuantizeOptions(
        recipe=recipe,
        weights=WeightStorage(values["weights"]),
        external_data=ExternalData(values["external_data"]),
        ranges_file=values.get("save_ranges"),
        plan_file=values.get("save_plan"),
        validation_data=validation,
        metric=values["metric"],
        goal=_goal(values),
        curve_file=values["pareto"],
    )


def _recipe(values: dict[str, Any]) -> "Recipe":
    return replace(_with_high_precision(make_recipe(values), values), fallback=values.pop("fallback"))


def _goal(values: dict[str, Any]) -> "AccuracyGoal | None":
    from qdqtool.accuracy.search.accuracy_goal import AccuracyGoal
    from qdqtool.errors import UsageError

    min_sqnr, max_loss = values["min_sqnr"], values["max_metric_loss"]
    curve, measured = values["pareto"], values["sensitivity"]
    if min_sqnr is None and max_loss is None:
        limits = "--min-sqnr or --max-metric-loss"
        if curve is not None:
            raise UsageError(f"--pareto goes with {limits} only: it writes what the search came by")
        if measured is not None:
            raise UsageError(f"--sensitivity goes with {limits} only: it saves the search what was measured before")
        return None
    return AccuracyGoal(
        min_sqnr_db=min_sqnr, max_metric_loss=max_loss, whole_curve=curve is not None, sensitivity_file=measured
    )


def _validation(values: dict[str, Any]) -> "FileData | None":
    """The validation data, which is taken out of ``values``."""
    from qdqtool.samples.request import FileData

    path = values.pop("validation_data")
    if path is None:
        return None
    # The file of labels names the calibration data; the preview is of that too.
    options = replace(make_read_options(values), labels=None, preview=None)
    return FileData(path=path, allow_constant=values["allow_constant_data"], options=options)


def _source(values: dict[str, Any], *, needed: bool, measured: bool) -> "FileData | RandomData | CachedRanges | None":
    """Where ranges come from: data or a file, to which data may be added; None where none is needed or named."""
    from qdqtool.errors import UsageError
    from qdqtool.quantization.preparation.cached_ranges import CachedRanges

    cache, force = values.pop("calibration_cache"), values.pop("force")
    named = values["calib_data"] is not None or values["random_calibration"]
    if force and cache is None:
        raise UsageError("--force goes with --calibration-cache only")
    if cache is None and not named:
        if not needed:
            return None
        if measured:
            raise UsageError(
                "no calibration data is given; --validation-data only measures the accuracy",
                hint="`--calib-data DATA` as well, with other samples; alone, it is divided into both",
            )
        raise UsageError(
            "no calibration data is given, and nothing is ever calibrated on made-up data unasked",
            hint="`--calib-data DATA` or `--calibration-cache RANGES`; or, for a trial, `--random-calibration`",
        )
    if cache is None:
        return make_data(values)
    if values["random_calibration"] or values["seed"] is not None:
        raise UsageError("--calibration-cache excludes --random-calibration and --seed")
    return CachedRanges(path=cache, force=force, data=_cached_data(values))


def _cached_data(values: dict[str, Any]) -> "FileData | None":
    """The data beside ranges from a file."""
    from qdqtool.errors import UsageError
    from qdqtool.samples.request import FileData

    path, samples, allow_constant = values.pop("calib_data"), values.pop("samples"), values.pop("allow_constant_data")
    if path is None and samples is not None:
        raise UsageError("--samples goes with --calib-data only: ranges from a file are of the samples they are of")
    if path is None:
        return None
    return FileData(path=path, samples=samples, allow_constant=allow_constant, options=make_read_options(values))


def _with_high_precision(recipe: "Recipe", values: dict[str, Any]) -> "Recipe":
    """The recipe with what ``--high-precision-dtype`` asks for, which is taken out of ``values``."""
    from qdqtool.quantization.planning.high_precision import HighPrecision

    return replace(recipe, high_precision=HighPrecision(values.pop("high_precision_dtype")))
