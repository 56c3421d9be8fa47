"""``qdqtool strip``: take Q/DQ nodes out of a model."""

from pathlib import Path

import click

from qdqtool.cli.options import (
    emit,
    external_data_option,
    model_argument,
    output_format_option,
    output_option,
    verbosity_options,
)


@click.command(short_help="Take Q/DQ nodes out of a model again.")
@model_argument()
@output_option("The float model to write.")
@external_data_option()
@click.option(
    "--drop-clipping",
    is_flag=True,
    help="Write the model also where a Q may do the work of a Relu or Clip that cannot be put back.",
)
@output_format_option()
@verbosity_options()
def command(*, model: Path, output: Path, external_data: str, drop_clipping: bool, output_format: str) -> None:
    """Take every QuantizeLinear/DequantizeLinear out of MODEL.

    Pairs are bypassed; stored codes become float weights again. Codes that are graph inputs or outputs, or that feed
    other operators, stay where they are and are listed. Where a quantizer removed a Relu or Clip because the range of a
    Q did its work, it is put back.
    """
    from qdqtool.jobs.strip import strip_model
    from qdqtool.models.graph.io.save import ExternalData

    report = strip_model(model, output, external_data=ExternalData(external_data), drop_clipping=drop_clipping)
    emit(report, output_format, "strip")
