"""``qdqtool sensitivity``: measure how quantizing each layer changes the outputs."""

from pathlib import Path
from typing import Any

import click

from qdqtool.cli.declared import options_of, values_of
from qdqtool.cli.options import emit, model_argument, report_options, step_progress
from qdqtool.cli.reports import reports_option
from qdqtool.cli.sections import REPORT, WHAT, Layout, SectionedCommand
from qdqtool.jobs.options import SensitivityCommand
from qdqtool.options import COMMAND_LINE

LAYOUT = Layout(
    sections={
        "Data": ("calib_data", "allow_constant_data", "samples"),
        "Images": (),
        "Sound and text": (),
        "What is quantized": WHAT,
        "How": (),
        "Report": ("reports", *REPORT, "metric"),
    },
    first=(
        "calib_data",
        "quantize_mode",
        "target",
        "metric",
        "samples",
        "input_shapes",
        "image_preset",
        "reports",
        "output_format",
        "help",
    ),
    examples=(
        "qdqtool sensitivity model.onnx --calib-data images.npz",
        "qdqtool sensitivity model.onnx --calib-data images.npz --output-format json",
        "qdqtool quantize model.onnx --calib-data images.npz --min-sqnr 30 -o out.onnx",
    ),
)


@click.command(cls=SectionedCommand, layout=LAYOUT, short_help="Show how quantizing each layer changes the outputs.")
@model_argument()
@options_of(SensitivityCommand)
@reports_option()
@report_options
def command(*, model: Path, output_format: str, **words: Any) -> None:
    """Show how quantizing each layer of the float model MODEL changes its outputs. No model is written.

    The model is prepared and calibrated as `qdqtool quantize` does it. Then the outputs are measured for each layer:
    with only this layer quantized, and with only this layer in float. This takes one session and up to 8 samples. A
    layer is the nodes that one kernel computes, such as a product and the Add behind it, or products of the same
    tensor.
    """
    from qdqtool.jobs.request import sensitivity_request
    from qdqtool.jobs.sensitivity import measure_sensitivity

    data, options = sensitivity_request(values_of(SensitivityCommand, words), COMMAND_LINE)
    with step_progress() as (_, progress, tick):
        report = measure_sensitivity(model, data, options, progress, tick)
    emit(report, output_format, "sensitivity")
