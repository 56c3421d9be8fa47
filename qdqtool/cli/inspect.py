"""``qdqtool inspect``: what is quantized in a model and what is not."""

from pathlib import Path

import click

from qdqtool.cli._options import emit, model_argument, output_format_option


@click.command(short_help="Show what is quantized in a model and what is not.")
@model_argument()
@click.option("--tensors", is_flag=True, help="Also list every tensor: name, type, shape, consumers.")
@output_format_option()
def command(*, model: Path, tensors: bool, output_format: str) -> None:
    """Show what is quantized in MODEL and what is not.

    Prints the Q/DQ inventory by type and granularity with scale ranges, the coverage of quantizable operators, sizes
    and opsets. Weights are not read: a file of external data need not be there.
    """
    from qdqtool.jobs.inspect import inspect_model

    emit(inspect_model(model, tensors=tensors), output_format, "inspect")
