"""``qdqtool inspect``: show the quantized and float parts of a model, or the kernels of an engine."""

from pathlib import Path

import click

from qdqtool.cli.options import emit, model_argument, output_format_option
from qdqtool.errors import UsageError


@click.command(short_help="Show what is quantized in a model and what is not.")
@model_argument()
@click.option("--tensors", is_flag=True, help="Also list every tensor: name, type, shape, consumers.")
@click.option(
    "--profile",
    type=click.Path(path_type=Path),
    metavar="FILE",
    help="Times of the layers: the file of trtexec --exportProfile.",
)
@click.option(
    "--model",
    "source",
    type=click.Path(path_type=Path),
    metavar="ONNX",
    help="The ONNX model from which the engine was built: compare planned types with actual types.",
)
@output_format_option()
def command(*, model: Path, tensors: bool, profile: Path | None, source: Path | None, output_format: str) -> None:
    """Show what is quantized in MODEL and what is not.

    Prints the Q/DQ inventory by type and granularity with scale ranges, the coverage of quantizable operators, sizes
    and opsets. Weights are not read, so external data may be missing.

    MODEL may also be an engine that `qdqtool build` wrote, or its manifest. Then the command prints the kernels of the
    engine with their types and bytes, and the conversions between floats and codes.

    MODEL may also be the JSON file of trtexec --exportLayerInfo, for an engine that any tool built. Then the command
    prints the layers with their types and conversions, and with --profile the time of each layer and type.
    """
    from qdqtool.engines.build.engine_map import has_manifest, is_engine
    from qdqtool.engines.build.layer_files import is_json

    is_built, reads_layers = has_manifest(model) or is_engine(model), is_json(model)
    if is_built or reads_layers:
        from qdqtool.jobs.inspect_engine import inspect_engine, inspect_layers

        if tensors:
            raise UsageError("--tensors needs a model: an engine has no list of tensors", hint="leave the option out")
        if is_built and profile is None and source is None:
            emit(inspect_engine(model), output_format, "engine_map")
        else:
            emit(inspect_layers(model, profile=profile, model=source), output_format, "layer_map")
        return
    if profile is not None or source is not None:
        raise UsageError(
            f"--profile and --model need the layers of an engine, and {model} has none",
            hint="name the JSON file of trtexec --exportLayerInfo instead of the model",
        )
    from qdqtool.jobs.inspect import inspect_model

    emit(inspect_model(model, tensors=tensors), output_format, "inspect")
