"""``qdqtool build``: build a TensorRT engine from a model, with a report of precisions."""

from pathlib import Path
from typing import Any

import click

from qdqtool.cli.declared import options_of, values_of
from qdqtool.cli.options import emit, model_argument, output_option, report_options
from qdqtool.cli.profiles import SHAPES, ProfilesCommand, profile_option, profile_values
from qdqtool.cli.reports import reports_option
from qdqtool.cli.sections import REPORT, Layout
from qdqtool.engines.options import BuildCommand

LAYOUT = Layout(
    sections={
        "Engine": ("output", "backend", "compute_capabilities", "timeout"),
        "Shapes": (*SHAPES, "profile", "calib_data"),
        "Deployment": (),
        "Gates": (),
        "Report": ("export_layer_info", "verbose_log", "reports", *REPORT),
    },
    first=(
        "output",
        "opt_shapes",
        "input_shapes",
        "compute_capabilities",
        "backend",
        "require_precision",
        "locked",
        "reports",
        "output_format",
        "help",
    ),
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
@profile_option()
@options_of(BuildCommand)
@reports_option()
@report_options
@click.pass_context
def command(
    ctx: click.Context, /, *, model: Path, output: Path, backend: str, output_format: str, **words: Any
) -> None:
    """Build a TensorRT engine from MODEL and report the precision of each quantized node.

    MODEL is validated for the backend first. Parsing and building run in a process of their own, so that a crash or a
    time-out ends in a message. A dynamic first dimension of an input becomes 1 unless a shape is given; every other
    dynamic dimension needs a shape. --input-shapes writes shapes into the model and folds nodes that become constant.
    --input-values does the same with the values of an input, such as a sampling rate.
    """
    from qdqtool.engines.build.options import build_request
    from qdqtool.engines.build.refusal import refused_report
    from qdqtool.engines.tensorrt.builder import BuildRefusedError
    from qdqtool.jobs.build import build_engine
    from qdqtool.reports.failure import Failure, tell

    words = {name: word for name, word in words.items() if name not in SHAPES}
    values = {**values_of(BuildCommand, words), **profile_values(ctx)}
    try:
        report = build_engine(model, output, backend=backend, options=build_request(values))
    except BuildRefusedError as error:
        tell(Failure(f"error: {error.message}", error.hint, error.exit_code))
        emit(refused_report(model, error), output_format, "build_refused", passed=False)
        ctx.exit(error.exit_code)
    emit(report, output_format, "build", passed=report.passed)
    if not report.passed:
        ctx.exit(1)
