"""``qdqtool calibrate``: find the range of every tensor that is to be quantized, and write the ranges to a file."""

from pathlib import Path
from typing import Any

import click

from qdqtool.cli.declared import options_of, values_of
from qdqtool.cli.options import emit, model_argument, output_option, report_options, step_progress
from qdqtool.cli.sections import REPORT, WHAT, Layout, SectionedCommand
from qdqtool.jobs.options import CalibrateCommand
from qdqtool.options import COMMAND_LINE

LAYOUT = Layout(
    sections={
        "Result": ("output",),
        "Data": ("calib_data", "allow_constant_data", "samples", "random_calibration", "seed"),
        "Where it runs": (),
        "Images": (),
        "Sound and text": (),
        "Quantization to calibrate for": WHAT,
        "How": (),
        "Report": REPORT,
    },
    headings={"What is quantized": "Quantization to calibrate for"},
    first=(
        "output",
        "calib_data",
        "samples",
        "calibration_method",
        "quantize_mode",
        "target",
        "input_shapes",
        "shard",
        "dask",
        "image_preset",
        "output_format",
        "help",
    ),
    examples=(
        "qdqtool calibrate model.onnx --calib-data images.npz -o ranges.json",
        "qdqtool calibrate model.onnx --calib-data images/ --shard 1/4 -o part1.json",
        "qdqtool calibrate model.onnx --calib-data images.npz --dask tcp://10.0.0.5:8786 -o ranges.json",
    ),
)


@click.command(
    cls=SectionedCommand, layout=LAYOUT, short_help="Run a float model over data and write the ranges of its tensors."
)
@model_argument()
@output_option("The ranges file to write, JSON.", is_binary=False)
@options_of(CalibrateCommand)
@report_options
def command(*, model: Path, output: Path, output_format: str, shard: str | None, **words: Any) -> None:
    """Run MODEL over data and write the range of every tensor that `qdqtool quantize` would quantize.

    `qdqtool quantize --calibration-cache RANGES` then writes the same bytes as with the data, and does not run the
    model. Every sample is checked before the first run. RANGES keeps the progress, also at Ctrl-C: run the same
    command again to continue. `qdqtool explain data` describes data, `qdqtool explain files` the ranges file,
    `qdqtool explain scale-out` a calibration on several machines.
    """
    from qdqtool.jobs.calibrate import CalibrationPlace, calibrate_to_file
    from qdqtool.jobs.request import calibration_data, recipe_request
    from qdqtool.quantization.ranges.shard import parse_shard

    values = values_of(CalibrateCommand, words)
    recipe, data = recipe_request(values), calibration_data(values, COMMAND_LINE)
    part = parse_shard(shard, "--shard") if shard is not None else None
    place = CalibrationPlace(shard=part, dask=values.pop("dask", None))
    with step_progress() as (_, progress, _):
        report = calibrate_to_file(model, data, output, recipe, progress, place)
    emit(report, output_format, "calibrate")
