"""``qdqtool check``: compare a model with qdqtool's arithmetic, ONNX Runtime on the CPU and a float baseline."""

from pathlib import Path
from typing import Any

import click

from qdqtool.cli.declared import options_of, values_of
from qdqtool.cli.options import emit, model_argument, report_options, step_progress
from qdqtool.cli.reports import reports_option
from qdqtool.cli.sections import REPORT, Layout, SectionedCommand
from qdqtool.jobs.options import CheckCommand
from qdqtool.options import COMMAND_LINE

LAYOUT = Layout(
    sections={
        "What is compared": (),
        "Data": ("data", "allow_constant_data", "samples"),
        "Images": (),
        "Sound and text": (),
        "Gates": (),
        "Report": ("blame", "strict", "reports", *REPORT),
    },
    first=(
        "baseline",
        "data",
        "min_sqnr",
        "min_agreement",
        "metric",
        "max_metric_loss",
        "outputs",
        "blame",
        "strict",
        "reports",
        "output_format",
        "help",
    ),
    examples=(
        "qdqtool check model.int8.onnx --baseline model.onnx --data images.npz",
        "qdqtool check model.int8.onnx --baseline model.onnx --min-sqnr 20",
    ),
)


@click.command(
    cls=SectionedCommand,
    layout=LAYOUT,
    short_help="Check a model's numbers against ONNX Runtime on the CPU and a float baseline.",
)
@model_argument()
@options_of(CheckCommand)
@reports_option()
@report_options
@click.pass_context
def command(
    context: click.Context, /, *, model: Path, baseline: Path | None, blame: bool, output_format: str, **words: Any
) -> None:
    """Check the numbers of MODEL.

    Every QuantizeLinear and DequantizeLinear is evaluated by qdqtool's own core on the values it really had in the
    ONNX Runtime CPU reference, and must agree in every bit. Every DQ must undo the Q before it, every scale must fit
    the values that its Q reads, and no output may have NaN or infinities. With --baseline, outputs, activations and
    packed weights are compared with the float model, and no output may be lost; with --outputs, what another machine
    made of the same --data is compared with the reference, and with --engine, what an engine makes of it on the GPU
    of this one. Where an output misses a gate, the layers that cost it most are named, with the options that leave
    them in float.

    Exit code 1 when a gate is missed, and with --strict for a warning; `qdqtool explain check` explains the gates.
    """
    if words["engine"] is not None:
        from qdqtool.engines.gpu.requirements import require_gpu

        require_gpu()  # before the imports below, which take a second
    from qdqtool.accuracy.checking.check_blame import BlameRequest
    from qdqtool.accuracy.checking.options import check_request
    from qdqtool.jobs.check import check_model

    request, options = check_request(values_of(CheckCommand, words), COMMAND_LINE)
    with step_progress() as (_, progress, tick):
        asked = BlameRequest(always=blame, tick=tick)
        report = check_model(model, baseline=baseline, data=request, options=options, progress=progress, blame=asked)
    failed = report.verdict == "failed" or (words["strict"] and report.verdict == "warning")
    emit(report, output_format, "check", passed=not failed)
    context.exit(int(failed))
