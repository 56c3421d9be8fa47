"""``qdqtool sensitivity``: what each layer's quantization does to the outputs."""

from pathlib import Path
from typing import Any

import click

from qdqtool.cli.calibration import DATA, HOW, SELECTING, WHAT, data_options, make_data, make_recipe, recipe_options
from qdqtool.cli.completion import offer, units
from qdqtool.cli.media import LAYOUT as MEDIA_LAYOUT
from qdqtool.cli.options import (
    OutputPath,
    emit,
    layer_progress,
    model_argument,
    output_format_option,
    verbosity_options,
)
from qdqtool.cli.reports import reports_option
from qdqtool.cli.sections import REPORT, Layout, SectionedCommand

LAYOUT = Layout(
    sections={
        "Data": (*DATA, "input_shapes", "input_values"),
        **MEDIA_LAYOUT,
        "What is quantized": (*WHAT, *SELECTING, "existing"),
        "How": HOW,
        "Report": ("reports", *REPORT, "metric", "output"),
    },
    examples=(
        "qdqtool sensitivity model.onnx --calib-data images.npz",
        "qdqtool sensitivity model.onnx --calib-data images.npz --output-format json",
        "qdqtool quantize model.onnx --calib-data images.npz --min-sqnr 30 -o out.onnx",
    ),
)


@click.command(cls=SectionedCommand, layout=LAYOUT, short_help="Show what quantizing each layer does to the outputs.")
@model_argument()
@click.option(
    "-o",
    "--output",
    type=OutputPath(),
    metavar="FILE.json",
    help="Keep what is measured for `qdqtool quantize --min-sqnr DB --sensitivity FILE.json`.",
)
@click.option(
    "--metric",
    metavar="NAME[:OUTPUT]",
    shell_complete=offer(units("accuracy.task_metrics.metrics")),
    help="Measure each layer by the task too: a metric of `qdqtool check`, or your function SCRIPT.py:func.",
)
@data_options()
@recipe_options()
@reports_option()
@output_format_option()
@verbosity_options()
def command(*, model: Path, output: Path | None, metric: str | None, output_format: str, **values: Any) -> None:
    """Show what quantizing each layer of MODEL, a float model, does to its outputs. No model is written.

    The model is prepared and calibrated as `qdqtool quantize` does it. Then each layer is quantized alone, and left in
    float alone, on up to 8 samples in one session. Layers are nodes that one kernel computes: a product with the Add
    behind it, products of the same tensor.
    """
    from qdqtool.jobs.sensitivity import SensitivityOptions, measure_sensitivity

    options = SensitivityOptions(recipe=make_recipe(values), metric=metric, output=output)
    with layer_progress() as (progress, tick):
        report = measure_sensitivity(model, make_data(values), options, progress, tick)
    emit(report, output_format, "sensitivity")
