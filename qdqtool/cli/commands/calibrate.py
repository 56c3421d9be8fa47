"""``qdqtool calibrate``: the range of every tensor that is to be quantized, from data, into a file."""

from pathlib import Path
from typing import Any

import click

from qdqtool.cli.calibration import DATA, HOW, SELECTING, WHAT, data_options, make_data, make_recipe, recipe_options
from qdqtool.cli.media import LAYOUT as MEDIA_LAYOUT
from qdqtool.cli.options import (
    emit,
    model_argument,
    output_format_option,
    output_option,
    sample_progress,
    verbosity_options,
)
from qdqtool.cli.sections import REPORT, Layout, SectionedCommand

LAYOUT = Layout(
    sections={
        "Result": ("output",),
        "Data": (*DATA, "shard", "input_shapes", "input_values"),
        "Where it runs": ("dask",),
        **MEDIA_LAYOUT,
        "What is to be quantized": (*WHAT, *SELECTING, "existing"),
        "How": HOW,
        "Report": REPORT,
    },
    examples=(
        "qdqtool calibrate model.onnx --calib-data images.npz -o ranges.json",
        "qdqtool calibrate model.onnx --calib-data images/ --shard 1/4 -o part1.json",
        "qdqtool calibrate model.onnx --calib-data images.npz --dask tcp://10.0.0.5:8786 -o ranges.json",
    ),
)


@click.command(
    cls=SectionedCommand, layout=LAYOUT, short_help="Run a float model over data and keep the ranges of its tensors."
)
@model_argument()
@output_option("The ranges file to write, JSON.", is_binary=False)
@data_options()
@click.option("--shard", metavar="I/N", help="Run only the I-th of N equal parts of the samples; see `qdqtool merge`.")
@click.option(
    "--dask",
    metavar="SCHEDULER",
    help="Run the samples on the workers of a Dask cluster: tcp://HOST:PORT or tls://HOST:PORT of its scheduler, or "
    "local:N for N processes on this machine. The ranges are the same.",
)
@recipe_options()
@output_format_option()
@verbosity_options()
def command(
    *, model: Path, output: Path, output_format: str, shard: str | None, dask: str | None, **values: Any
) -> None:
    """Run MODEL over data and write the range of every tensor that `qdqtool quantize` would quantize.

    `qdqtool quantize --calibration-cache RANGES` then gives the same bytes as quantizing with the data, and runs
    nothing. Every sample is checked before the first run. What is done is kept in RANGES meanwhile, and at Ctrl-C: the
    same command goes on from there. `qdqtool explain calibration` describes data, ranges files and shards,
    `qdqtool explain cluster` a calibration on several machines.
    """
    from qdqtool.jobs.calibrate import CalibrationPlace, calibrate_to_file
    from qdqtool.quantization.ranges.shard import parse_shard

    recipe, data = make_recipe(values), make_data(values)
    place = CalibrationPlace(shard=parse_shard(shard, "--shard") if shard is not None else None, dask=dask)
    with sample_progress() as progress:
        report = calibrate_to_file(model, data, output, recipe, progress, place)
    emit(report, output_format, "calibrate")
