"""``qdqtool validate``: find every Q/DQ fault of models, without a GPU."""

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from qdqtool.cli.declared import options_of, values_of
from qdqtool.cli.options import emit, remember_models
from qdqtool.cli.sections import REPORT, Layout, SectionedCommand
from qdqtool.cli.validate_options import deliver, refuse_with_fixes, settings_of, validate_options
from qdqtool.errors import escape
from qdqtool.linting.options import FixCommand
from qdqtool.models.options import OperatorOptions
from qdqtool.options import build, declared

if TYPE_CHECKING:
    from qdqtool.linting.repair.report import FixReport

LAYOUT = Layout(
    terms={
        "A finding says what the target does": (
            ("refused", "it does not load, build or run the model"),
            ("silent", "it loads the model; the numbers or the meaning are wrong"),
            ("fallback", "it runs the layer in float"),
            ("advice", "it loads the model; there is a better way"),
        )
    },
    sections={
        "Targets and rules": ("targets", "sm", "parser"),
        "Verdict": (),
        "Report": ("reports", "show_context", "statistics", *REPORT),
        "Fixes": (),
        "Run": ("jobs",),
    },
    first=(
        "targets",
        "sm",
        "select",
        "ignore",
        "fail_on",
        "baseline",
        "fix",
        "diff",
        "reports",
        "output_format",
        "help",
    ),
    examples=(
        "qdqtool validate model.onnx",
        "qdqtool validate models/*.onnx --target tensorrt-10.8,ort-cpu --sm 8.6",
        "qdqtool validate model.onnx --fix --diff",
        "qdqtool validate model.onnx --output-format github --report sarif=qdqtool.sarif",
    ),
)


@click.command(cls=SectionedCommand, layout=LAYOUT, short_help="Find every Q/DQ fault of models, without a GPU.")
@click.argument("models", type=click.Path(path_type=Path), nargs=-1, metavar="MODEL...", callback=remember_models)
@validate_options
@options_of(FixCommand)
@click.pass_context
def command(context: click.Context, /, *, models: tuple[Path, ...], **options: Any) -> None:
    """Find every Q/DQ fault of each MODEL, in one pass and without a GPU.

    `qdqtool explain CODE` explains a finding. Options that are not given are read from the nearest qdqtool.toml, or
    from [tool.qdqtool] in pyproject.toml.

    Exit codes: 0 if no finding fails; 1 for findings that --fail-on names; 2 for wrong options; 3 if a model cannot be
    read (the other models are still reported); 4 if a package for --fix or --parser is missing.
    """
    from qdqtool.jobs.validate import validate_files

    if len(models) > 1 and any(output_format == "html" for output_format, _ in options["reports"]):
        raise click.UsageError(f"--report html needs one model, and {len(models)} are given.")
    settings = settings_of(options)
    if options["show_settings"]:
        emit(settings, "json" if options["output_format"] == "json" else "text", "settings")
        return
    if not models:
        raise click.UsageError("Missing argument 'MODEL...'.")
    if wants_fixes(options):
        refuse_with_fixes(options)
        code = run_fixes(
            models, options, settings.policy, fail_on=settings.fail_on, output_format=options["output_format"]
        )
        context.exit(code)
    report = validate_files(models, settings.policy, jobs=options["jobs"])
    context.exit(deliver(report, settings, options))


def wants_fixes(options: dict[str, Any]) -> bool:
    """Return whether models are to be fixed.

    Raises:
        UsageError: An option is given that requires ``--fix``.
    """
    from qdqtool.errors import UsageError

    if options["fix"] or options["diff"]:
        return True
    operators = (each.name for each in declared(OperatorOptions))
    names = ("unsafe_fixes", "output", "in_place", "data", "allow_constant_data", "input_shapes", *operators)
    idle = next((name for name in names if options[name]), None)
    if idle is not None:
        flag = "-o" if idle == "output" else f"--{idle.replace('_', '-')}"
        raise UsageError(f"{flag} needs --fix or --diff", hint="add `--fix`, or `--diff` to only print the changes")
    return False


def run_fixes(
    models: tuple[Path, ...], options: dict[str, Any], policy: Any, *, fail_on: str, output_format: str
) -> int:
    """Fix models, print the report, and return the exit code."""
    from qdqtool.jobs.fix import FixRequest, fix_models
    from qdqtool.samples.request import data_request

    values = values_of(FixCommand, options)
    unsafe, _ = values.pop("unsafe_fixes", False), values.pop("fix", False)
    request = build(FixRequest, values, policy=policy, unsafe=unsafe, data=data_request(values))
    report = fix_models(models, request)
    code = _exit_code(report, diff=options["diff"], fail_on=fail_on)
    emit(report, output_format, "fixes", passed=code == 0)
    errors = [model.error for model in report.models if model.error is not None]
    for error in errors:
        click.echo(escape(f"error: {error}"), err=True)
    return code


def _exit_code(report: "FixReport", *, diff: bool, fail_on: str) -> int:
    from qdqtool.jobs.fix import reaches

    if any(model.error is not None for model in report.models):
        return 3
    would_change = diff and any(model.repaired and model.repaired.changes for model in report.models)
    failed = fail_on != "never" and reaches(report, "warning" if fail_on == "warning" else "error")
    return 1 if failed or would_change else 0
