"""``qdqtool inspect``: show the quantized and float parts of a model, or the kernels of an engine."""

from pathlib import Path

import click

from qdqtool.cli.options import emit, model_argument, output_format_option
from qdqtool.errors import UsageError


@click.command(short_help="Show what is quantized in a model and what is not.")
@model_argument()
@click.option("--tensors", is_flag=True, help="Also list every tensor: name, type, shape, consumers.")
@output_format_option()
def command(*, model: Path, tensors: bool, output_format: str) -> None:
    """Show what is quantized in MODEL and what is not.

    Prints the Q/DQ inventory by type and granularity with scale ranges, the coverage of quantizable operators, sizes
    and opsets. Weights are not read, so external data may be missing.

    MODEL may also be an engine that `qdqtool build` wrote, or its manifest. Then the command prints the kernels of the
    engine with their types and bytes, and the conversions between floats and codes.
    """
    from qdqtool.engines.build.engine_map import has_manifest, is_engine

    if has_manifest(model) or is_engine(model):
        from qdqtool.jobs.inspect_engine import inspect_engine

        if tensors:
            raise UsageError("--tensors needs a model: an engine has no list of tensors", hint="leave the option out")
        emit(inspect_engine(model), output_format, "engine_map")
        return
    from qdqtool.jobs.inspect import inspect_model

    emit(inspect_model(model, tensors=tensors), output_format, "inspect")
