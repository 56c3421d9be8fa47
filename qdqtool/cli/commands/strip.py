"""``qdqtool strip``: remove Q/DQ nodes from a model."""

from pathlib import Path
from typing import Any

import click

from qdqtool.cli.declared import options_of, values_of
from qdqtool.cli.options import emit, model_argument, output_option, report_options
from qdqtool.jobs.options import StripCommand


@click.command(short_help="Remove Q/DQ nodes from a model.")
@model_argument()
@output_option("The float model to write.")
@options_of(StripCommand)
@report_options
def command(*, model: Path, output: Path, output_format: str, **words: Any) -> None:
    """Remove every QuantizeLinear/DequantizeLinear from MODEL.

    Pairs are bypassed; stored codes become float weights again. Codes that are graph inputs or outputs, or that feed
    other operators, stay in the model and are listed. If a quantizer removed a Relu or Clip because a Q clips the same
    values, the Relu or Clip is inserted again.
    """
    from qdqtool.jobs.strip import strip_model

    emit(strip_model(model, output, **values_of(StripCommand, words)), output_format, "strip")
