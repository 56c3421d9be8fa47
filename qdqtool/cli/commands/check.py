"""``qdqtool check``: compare models with qdqtool's arithmetic, ONNX Runtime on the CPU and float baselines."""

from pathlib import Path
from typing import Any

import click
from click.core import ParameterSource

from qdqtool.cli.declared import of_command_line, options_of, values_of
from qdqtool.cli.options import emit, model_argument, output_format_option, step_progress, verbosity_options
from qdqtool.cli.reports import PRINTED, WRITTEN, reports_option
from qdqtool.cli.sections import REPORT, Layout, SectionedCommand
from qdqtool.jobs.options import CheckCommand

LAYOUT = Layout(
    sections={
        "What is compared": ("config",),
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
        "config",
        "reports",
        "output_format",
        "help",
    ),
    examples=(
        "qdqtool check model.int8.onnx --baseline model.onnx --data images.npz",
        "qdqtool check model.int8.onnx --baseline model.onnx --min-sqnr 20",
        "qdqtool check --report junit=check.xml",
    ),
)


@click.command(
    cls=SectionedCommand,
    layout=LAYOUT,
    short_help="Check a model's numbers against ONNX Runtime on the CPU and a float baseline.",
)
@model_argument(required=False)
@click.option(
    "--config",
    type=click.Path(path_type=Path),
    metavar="FILE.toml",
    help="Check the models that the [[check]] tables of this file list.  [default without MODEL: the nearest "
    "qdqtool.toml or pyproject.toml]",
)
@options_of(CheckCommand)
@reports_option(WRITTEN)
@output_format_option(*PRINTED)
@verbosity_options
@click.pass_context
def command(
    context: click.Context, /, *, model: Path | None, config: Path | None, output_format: str, **words: Any
) -> None:
    """Check the numbers of MODEL, or of all models that a settings file lists.

    The model runs in ONNX Runtime on the CPU. qdqtool computes the result of every QuantizeLinear and
    DequantizeLinear again, and every bit must be equal. Every DQ must undo the Q before it, and every scale must fit
    the values that its Q reads. No output may have NaN or infinities.

    --baseline also compares outputs, activations and packed weights with the float model. --outputs compares the
    outputs of another machine for the same --data, and --engine the outputs of an engine on the GPU of this machine.
    If an output misses a gate, the report names the layers that cause most of its error, and the options that leave
    them in float.

    The exit code is 1 if a gate is missed; with --strict, also for a warning. `qdqtool explain check` explains the
    gates.
    """
    if words["engine"] is not None:
        from qdqtool.engines.gpu.requirements import require_gpu

        require_gpu()  # before the imports below, which take a second
    from qdqtool.jobs.check_models import check_listed
    from qdqtool.linting.settings import ListedModel
    from qdqtool.results import exit_code

    if model is None:
        context.exit(_check_models(context, config, output_format, words))
    if config is not None:
        raise click.UsageError("--config lists the models to check: leave MODEL out.")
    values = values_of(CheckCommand, words)
    with step_progress() as (_, progress, tick):
        report = check_listed(ListedModel(model=model, values=values), progress, tick)
    code = exit_code(report.verdict, strict=words["strict"])
    emit(report, output_format, "check", passed=not code)
    context.exit(code)


def _check_models(context: click.Context, config: Path | None, output_format: str, words: dict[str, Any]) -> int:
    """Check the models of a settings file, and return the exit code."""
    from qdqtool.errors import UsageError
    from qdqtool.jobs.check_models import check_models, find_settings, read_checks
    from qdqtool.linting.settings import LIST_HINT, NAMES_FILE

    sources = {name: context.get_parameter_source(name) for name in words}
    given = {name: word for name, word in words.items() if sources[name] is ParameterSource.COMMANDLINE}
    for each in of_command_line(CheckCommand):
        if each.kind.form in NAMES_FILE and each.name in given:
            raise click.UsageError(f"{each.flag} is for one model: name MODEL, or set it in a [[check]] table.")
    settings = config or find_settings()
    if settings is None:
        raise UsageError("no MODEL is given, and there is no settings file that lists models", hint=LIST_HINT)
    checks = read_checks(settings, values_of(CheckCommand, given))
    with step_progress() as (begin, progress, tick):
        report = check_models(checks, settings, begin=begin, progress=progress, tick=tick)
    emit(report, output_format, "check_models", passed=not report.exit_code)
    return report.exit_code
