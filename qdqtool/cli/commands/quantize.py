"""``qdqtool quantize``: turn a float model and data into a Q/DQ model."""

from pathlib import Path
from typing import Any

import click

from qdqtool.cli.declared import options_of, values_of
from qdqtool.cli.options import emit, model_argument, output_option, report_options, step_progress
from qdqtool.cli.reports import has_reports, reports_option
from qdqtool.cli.sections import REPORT, WHAT, Layout, SectionedCommand
from qdqtool.jobs.options import QuantizeCommand
from qdqtool.options import COMMAND_LINE

LAYOUT = Layout(
    sections={
        "Result": ("output",),
        "Data": ("calib_data", "allow_constant_data", "samples"),
        "Images": (),
        "Sound and text": (),
        "What is quantized": (*WHAT, "list_matches"),
        "Accuracy": ("min_sqnr", "metric", "max_metric_loss", "fallback", "sensitivity"),
        "How": (),
        "Report": ("strict", "reports", *REPORT),
    },
    first=(
        "output",
        "calib_data",
        "validation_data",
        "quantize_mode",
        "target",
        "min_sqnr",
        "high_precision_dtype",
        "nodes_to_exclude",
        "calibration_cache",
        "input_shapes",
        "output_format",
        "help",
    ),
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
@options_of(QuantizeCommand)
@reports_option()
@report_options
def command(*, model: Path, output: Path | None, output_format: str, list_matches: bool, **words: Any) -> None:
    """Quantize the float model MODEL with calibration data; without data, quantize only its weights.

    Weights are prepared if this provably changes no result. Pairs are placed where the target computes in the
    formats of the mode. Ranges are measured on the data. The result is written if it passes `qdqtool validate` for the
    target. The same input gives the same bytes. The report lists every quantizable node that stays in float, with
    the reason.
    """
    from qdqtool.errors import UsageError
    from qdqtool.jobs import matches, quantize
    from qdqtool.jobs.request import quantize_request, recipe_request
    from qdqtool.results import exit_code

    if list_matches:
        if has_reports(click.get_current_context()):
            raise UsageError("--report cannot be used with --list-matches: nothing is quantized")
        recipe = recipe_request(values_of(QuantizeCommand, words))
        emit(matches.list_matches(model, recipe), output_format, "matches")
        return
    if output is None:
        raise UsageError(
            "no output file is given", hint="add `-o OUT.onnx`; or `--list-matches` to list what would be quantized"
        )
    data, options = quantize_request(values_of(QuantizeCommand, words), COMMAND_LINE)
    with step_progress() as (_, progress, tick):
        report = quantize.quantize_model(model, data, output, options, progress, tick)
    code = exit_code(report.verdict, strict=words["strict"])
    emit(report, output_format, "quantize", passed=not code)
    click.get_current_context().exit(code)
