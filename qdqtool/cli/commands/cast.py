"""``qdqtool cast``: convert a model to half precision."""

from pathlib import Path
from typing import Any

import click

from qdqtool.cli.declared import options_of, values_of
from qdqtool.cli.options import emit, model_argument, output_option, report_options
from qdqtool.cli.sections import REPORT, Layout, SectionedCommand
from qdqtool.jobs.options import CastCommand
from qdqtool.options import COMMAND_LINE

LAYOUT = Layout(
    sections={
        "Result": ("output", "to", "min_sqnr", "nodes_to_exclude", "op_types_to_exclude", "io_types", "external_data"),
        "Data": ("data", "calibration_cache", "allow_constant_data", "samples"),
        "Images": (),
        "Sound and text": (),
        "Report": REPORT,
    },
    first=(
        "output",
        "to",
        "data",
        "min_sqnr",
        "nodes_to_exclude",
        "op_types_to_exclude",
        "io_types",
        "input_shapes",
        "output_format",
        "help",
    ),
    examples=(
        "qdqtool cast model.onnx --data images.npz -o model.fp16.onnx",
        "qdqtool cast model.int8.onnx --to bf16 -o model.int8.bf16.onnx",
    ),
)


@click.command(cls=SectionedCommand, layout=LAYOUT, short_help="Convert a model to float16 or bfloat16.")
@model_argument()
@output_option("The model to write.")
@options_of(CastCommand)
@report_options
def command(*, model: Path, output: Path, output_format: str, **words: Any) -> None:
    """Convert the float32 nodes of MODEL to half precision, since TensorRT 11 takes all types from the ONNX file.

    Q/DQ pairs keep their scales and codes, and inputs and outputs keep their types without
    --io-types. Values are measured on the data. A
    node stays float32 if ONNX does not define its operator for the type, if its values leave the type, if an option
    names it, or if an output would miss --min-sqnr. The report lists these nodes with the reasons.
    """
    from qdqtool.jobs.cast import cast_model, cast_request

    request, options = cast_request(values_of(CastCommand, words), COMMAND_LINE)
    emit(cast_model(model, output, options, request), output_format, "cast")
