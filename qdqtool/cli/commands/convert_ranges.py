"""``qdqtool convert-ranges``: write ranges of qdqtool or of another tool in the file format of another tool."""

from pathlib import Path

import click

from qdqtool.cli.completion import offer, units
from qdqtool.cli.options import emit, output_option, report_options


@click.command(short_help="Write ranges in the file format of another tool.")
@click.argument("ranges", type=click.Path(path_type=Path), metavar="RANGES")
@output_option("The file to write.", is_binary=False)
@click.option("--to", "to", required=True, metavar="FORMAT", help="Its format: tensorrt-cache, ort-json or npz.")
@click.option(
    "--calibration-method",
    metavar="METHOD",
    shell_complete=offer(units("quantization.ranges.calibrators")),
    help="Method that computes thresholds from ranges.  [default: the method that the ranges were calibrated for]",
)
@click.option(
    "--fill",
    type=click.Path(path_type=Path),
    metavar="RANGES",
    help="Take the ranges of tensors that have none from this file.",
)
@report_options
def command(
    *, ranges: Path, output: Path, to: str, calibration_method: str | None, fill: Path | None, output_format: str
) -> None:
    """Write RANGES in the file format of another tool.

    RANGES is what `qdqtool calibrate` wrote, or a file of another tool: a TensorRT calibration cache, a calibration
    table of ONNX Runtime, AIMET encodings, or an npz. The output holds one clipping threshold for each tensor. The
    calibration method computes it for int8. RANGES may also be a model with Q/DQ: the output then has the scales of its
    pairs, for the model that `qdqtool strip` writes. `qdqtool explain other-tools` describes each format.
    """
    from qdqtool.jobs.convert_ranges import convert_ranges

    emit(convert_ranges(ranges, output, to, calibration_method, fill), output_format, "convert_ranges")
