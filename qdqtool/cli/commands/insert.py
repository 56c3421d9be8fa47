"""``qdqtool insert``: insert the Q/DQ pairs of a plan into a model."""

from pathlib import Path
from typing import Any

import click

from qdqtool.cli.declared import options_of, values_of
from qdqtool.cli.options import emit, model_argument, output_option, report_options
from qdqtool.jobs.options import InsertCommand
from qdqtool.options import COMMAND_LINE


@click.command(short_help="Insert Q/DQ nodes with the constant scales of a plan into a model.")
@model_argument()
@click.option(
    "--plan",
    type=click.Path(path_type=Path),
    help="Plan file, TOML or JSON, with tensors, formats and scales (`qdqtool explain files`).",
)
@click.option(
    "--encodings",
    type=click.Path(path_type=Path),
    metavar="RANGES",
    help="Use the ranges of another tool instead of a plan: a TensorRT calibration cache, an ONNX Runtime calibration "
    "table, AIMET encodings or npz (`qdqtool explain other-tools`). Pairs are placed where the target computes in this "
    "format.",
)
@output_option("The quantized model to write.")
@options_of(InsertCommand)
@report_options
def command(
    *, model: Path, plan: Path | None, encodings: Path | None, output: Path, output_format: str, **words: Any
) -> None:
    """Insert Q/DQ nodes with constant scales into MODEL, from a plan or from the ranges of another tool.

    Every tensor that the plan names gets one QuantizeLinear/DequantizeLinear pair, shared by the consumers in
    the plan. Constants are stored as codes with a DequantizeLinear. Nothing else in the file changes, except that opset
    and IR version are raised if the formats need it.
    """
    from qdqtool.errors import UsageError
    from qdqtool.jobs.insert import insert_encodings, insert_plan
    from qdqtool.jobs.request import insert_request

    options = insert_request(values_of(InsertCommand, words), COMMAND_LINE)
    if plan is not None and encodings is None:
        emit(insert_plan(model, plan, output, options), output_format, "insert")
    elif encodings is not None and plan is None:
        emit(insert_encodings(model, encodings, output, options), output_format, "insert")
    else:
        raise UsageError("name either a plan with --plan, or ranges of another tool with --encodings")
