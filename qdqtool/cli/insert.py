"""``qdqtool insert``: put the Q/DQ pairs of a plan into a model."""

from pathlib import Path

import click

from qdqtool.cli._options import emit, external_data_option, model_argument, output_format_option, output_option


@click.command(short_help="Put Q/DQ nodes with the constant scales of a plan into a model.")
@model_argument()
@click.option(
    "--plan",
    type=click.Path(path_type=Path),
    required=True,
    help="Plan file, TOML or JSON: which tensors, which format, which scales (docs/plan.md).",
)
@output_option("The quantized model to write.")
@click.option(
    "--weights",
    type=click.Choice(["packed", "qdq"]),
    default="packed",
    show_default=True,
    help="Store quantized constants as codes behind a DQ, or as float behind Q and DQ.",
)
@external_data_option()
@output_format_option()
def command(*, model: Path, plan: Path, output: Path, weights: str, external_data: str, output_format: str) -> None:
    """Put Q/DQ nodes with the constant scales of a plan into MODEL.

    Every tensor that the plan names gets one QuantizeLinear/DequantizeLinear pair, shared by the consumers it is meant
    for; constants are stored as codes with a DequantizeLinear. Nothing else in the file changes; opset and IR version
    are raised only as far as the formats need.
    """
    from qdqtool.graph.save import ExternalData
    from qdqtool.pipeline.insert import InsertOptions, insert_plan
    from qdqtool.pipeline.placement_edits import WeightStorage

    options = InsertOptions(weights=WeightStorage(weights), external_data=ExternalData(external_data))
    emit(insert_plan(model, plan, output, options), output_format, "insert")
