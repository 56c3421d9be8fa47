"""``qdqtool insert``: put the Q/DQ pairs of a plan into a model."""

from pathlib import Path

import click

from qdqtool.cli.completion import offer, targets_and_releases
from qdqtool.cli.options import (
    emit,
    external_data_option,
    model_argument,
    output_format_option,
    output_option,
    shapes_option,
    verbosity_options,
    weights_option,
)


@click.command(short_help="Put Q/DQ nodes with the constant scales of a plan into a model.")
@model_argument()
@click.option(
    "--plan",
    type=click.Path(path_type=Path),
    help="Plan file, TOML or JSON: which tensors, which format, which scales (`qdqtool explain plan`).",
)
@click.option(
    "--encodings",
    type=click.Path(path_type=Path),
    metavar="RANGES",
    help="Instead of a plan: ranges of another tool, put where the target computes in their format. TensorRT "
    "calibration cache, ONNX Runtime calibration table, AIMET encodings or npz (`qdqtool explain foreign_ranges`).",
)
@output_option("The quantized model to write.")
@click.option(
    "--target",
    "targets",
    multiple=True,
    metavar="TARGET,...",
    shell_complete=offer(targets_and_releases, takes_commas=True),
    help="Refuse what one of these does not take, with the nearest that it does: onnx, ort-cpu, tensorrt, "
    "tensorrt-rtx, or a release as tensorrt-10.8. Without it the report only notes who does not take the result.",
)
@weights_option()
@external_data_option()
@click.option(
    "--verify",
    is_flag=True,
    help="Where the opset is raised, run the model before and after: ONNX Runtime must give equal bits.",
)
@shapes_option("--input-shapes", "Shapes of dynamic inputs for --verify")
@output_format_option()
@verbosity_options()
def command(  # noqa: PLR0913 -- one argument for each option
    *,
    model: Path,
    plan: Path | None,
    encodings: Path | None,
    output: Path,
    targets: tuple[str, ...],
    weights: str,
    external_data: str,
    verify: bool,
    input_shapes: tuple[str, ...],
    output_format: str,
) -> None:
    """Put Q/DQ nodes with constant scales into MODEL: those of a plan, or of ranges that another tool found.

    Every tensor that the plan names gets one QuantizeLinear/DequantizeLinear pair, shared by the consumers it is meant
    for; constants are stored as codes with a DequantizeLinear. Nothing else in the file changes; opset and IR version
    are raised only as far as the formats need.
    """
    from qdqtool.errors import UsageError
    from qdqtool.jobs.insert import InsertOptions, insert_encodings, insert_plan
    from qdqtool.models.graph.io.save import ExternalData
    from qdqtool.quantization.insertion.pair_edits import WeightStorage
    from qdqtool.samples.input_shapes import parse_shapes
    from qdqtool.samples.request import DataRequest

    request = DataRequest(input_shapes=parse_shapes(input_shapes, "--input-shapes")) if verify else None
    options = InsertOptions(
        weights=WeightStorage(weights),
        external_data=ExternalData(external_data),
        targets=tuple(word.strip() for value in targets for word in value.split(",") if word.strip()),
        verify=request,
    )
    if plan is not None and encodings is None:
        emit(insert_plan(model, plan, output, options), output_format, "insert")
    elif encodings is not None and plan is None:
        emit(insert_encodings(model, encodings, output, options), output_format, "insert")
    else:
        raise UsageError("name either a plan with --plan, or ranges of another tool with --encodings")
