"""``qdqtool build``: a TensorRT engine from a model, with a precision report."""

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from qdqtool.cli.deployment import DEPLOYMENT, deployment_options, take_deployment
from qdqtool.cli.options import (
    OutputPath,
    emit,
    model_argument,
    output_format_option,
    output_option,
    samples_option,
    shapes_option,
    values_option,
    verbosity_options,
)
from qdqtool.cli.profiles import (
    SHAPES,
    VALUES,
    ProfilesCommand,
    further_profiles,
    given_profiles,
    profile_options,
    shapes_of,
    values_of,
)
from qdqtool.cli.reports import reports_option
from qdqtool.cli.sections import REPORT, Layout

if TYPE_CHECKING:
    from qdqtool.engines.build.options import BuildOptions


LAYOUT = Layout(
    sections={
        "Engine": ("output", "backend", "compute_capabilities", "timeout", "locked", "sign"),
        "Shapes": (*SHAPES, *VALUES, "profile", "calib_data", "input_shapes", "input_values"),
        "Deployment": DEPLOYMENT,
        "Gates": ("require_precision", "skip_validate"),
        "Report": ("export_layer_info", "verbose_log", "reports", *REPORT),
    },
    examples=(
        "qdqtool build model.int8.onnx -o model.engine",
        "qdqtool build model.int8.onnx -o model.engine --opt-shapes images:1x3x640x640",
        "qdqtool build model.int8.onnx -o model.engine --require-precision 'int8>=95%'",
    ),
)


@click.command(
    cls=ProfilesCommand,
    layout=LAYOUT,
    short_help="Build a TensorRT engine and report the precision of each quantized node.",
)
@model_argument()
@output_option("The engine to write; its manifest goes to FILE.manifest.json.")
@click.option(
    "--backend",
    type=click.Choice(["auto", "tensorrt", "tensorrt-rtx"]),
    default="auto",
    show_default=True,
    help="TensorRT (needs a GPU), TensorRT for RTX (needs none), or the first of them that is installed.",
)
@profile_options()
@shapes_option("--input-shapes", "Fix the shape of an input, and fold what that decides")
@values_option("Make an input a constant, and fold what that decides")
@samples_option(
    "Take the shapes of dynamic inputs from this calibration data: smallest, most frequent and largest.", "calib_data"
)
@click.option(
    "--compute-capabilities",
    metavar="SM,...",
    help="GPUs to build for, as 8.6,8.9 or sm86,sm89. Default for tensorrt-rtx: 8.0,8.6,8.9,12.0,12.1, less those "
    "that lack a type of the model; tensorrt builds for the GPU in the machine.",
)
@deployment_options()
@click.option(
    "--require-precision",
    multiple=True,
    metavar="TYPE>=PERCENT%",
    help="Fail, and leave no engine, unless that share of the nodes planned for a type runs in it: int8>=95%.",
)
@click.option(
    "--locked",
    type=click.Path(path_type=Path),
    metavar="MANIFEST",
    help="Build only if model, external data, options, profiles, product and version are those of this manifest.",
)
@click.option(
    "--sign",
    type=click.Path(path_type=Path),
    metavar="KEY",
    help="Sign the manifest with this key of OpenSSH; the signature goes to FILE.manifest.json.sig.",
)
@click.option("--export-layer-info", type=OutputPath(), metavar="FILE", help="Write the engine's layers, as JSON.")
@click.option("--verbose-log", type=OutputPath(), metavar="FILE", help="Write the builder's whole log.")
@click.option("--skip-validate", is_flag=True, help="Build without validating first; the report says SKIPPED.")
@click.option(
    "--timeout",
    type=float,
    metavar="SECONDS",
    default=1800,
    show_default=True,
    help="Stop the builder after this time.",
)
@reports_option()
@output_format_option()
@verbosity_options()
@click.pass_context
def command(
    ctx: click.Context, /, *, model: Path, output: Path, backend: str, output_format: str, **words: Any
) -> None:
    """Build a TensorRT engine from MODEL and report what each quantized node runs in.

    MODEL is validated for the backend first. Parsing and building run in a process of their own, so that a crash or a
    time-out ends in a message. The first dimension of a dynamic input becomes 1 unless a shape is given; every other
    dynamic dimension needs one. --input-shapes writes shapes into the model and folds what that decides, as does
    --input-values with an input such as a sampling rate.
    """
    from qdqtool.engines.build.refusal import refused_report
    from qdqtool.engines.tensorrt.builder import BuildRefusedError
    from qdqtool.jobs.build import build_engine
    from qdqtool.reports.failure import Failure, tell

    try:
        report = build_engine(model, output, backend=backend, options=make_options(ctx, **words))
    except BuildRefusedError as error:
        tell(Failure(f"error: {error.message}", error.hint, error.exit_code))
        emit(refused_report(model, error), output_format, "build_refused", passed=False)
        ctx.exit(error.exit_code)
    emit(report, output_format, "build", passed=report.passed)
    if not report.passed:
        ctx.exit(1)


def make_options(  # noqa: PLR0913 -- one argument for each option
    ctx: click.Context,
    /,
    *,
    calib_data: Path | None,
    compute_capabilities: str | None,
    require_precision: tuple[str, ...],
    export_layer_info: Path | None,
    verbose_log: Path | None,
    skip_validate: bool,
    timeout: float,
    input_shapes: tuple[str, ...],
    input_values: tuple[str, ...],
    locked: Path | None,
    sign: Path | None,
    **words: Any,
) -> "BuildOptions":
    """The options that the values of this command ask for."""
    from qdqtool.engines.build.options import BuildOptions
    from qdqtool.engines.build.precision_gate import parse_gate
    from qdqtool.engines.tensorrt.gpus import parse
    from qdqtool.samples.input_shapes import parse_numbers, parse_shapes
    from qdqtool.samples.request import FileData

    profiles = given_profiles(ctx)
    return BuildOptions(
        shapes=shapes_of(profiles.first, parse_shapes(input_shapes, "--input-shapes")),
        shape_values=values_of(profiles.first),
        further_profiles=further_profiles(profiles),
        input_values=parse_numbers(input_values, "--input-values"),
        deployment=take_deployment(words),
        calib_data=FileData(path=calib_data, allow_constant=True) if calib_data is not None else None,
        compute_capabilities=parse(compute_capabilities) if compute_capabilities is not None else (),
        timeout=timeout,
        skip_validate=skip_validate,
        require_precision=tuple(parse_gate(text) for text in require_precision),
        locked=locked,
        sign_key=sign,
        layer_info=export_layer_info,
        verbose_log=verbose_log,
    )
