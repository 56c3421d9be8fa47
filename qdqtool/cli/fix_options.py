"""The options of ``validate`` that fix models."""

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from qdqtool.cli.declared import values_of
from qdqtool.cli.options import emit
from qdqtool.linting.options import FixCommand
from qdqtool.options import build

if TYPE_CHECKING:
    from qdqtool.linting.repair.report import FixReport


def wants_fixes(options: dict[str, Any]) -> bool:
    """Return whether models are to be fixed.

    Raises:
        UsageError: An option is given that requires ``--fix``.
    """
    from qdqtool.errors import UsageError

    if options["fix"] or options["diff"]:
        return True
    names = ("unsafe_fixes", "output", "in_place", "data", "allow_constant_data", "input_shapes")
    idle = next((name for name in names if options[name]), None)
    if idle is not None:
        flag = "-o" if idle == "output" else f"--{idle.replace('_', '-')}"
        raise UsageError(f"{flag} needs --fix or --diff", hint="add `--fix`, or `--diff` to only print the changes")
    return False


def run_fixes(
    models: tuple[Path, ...], options: dict[str, Any], policy: Any, *, fail_on: str, output_format: str
) -> int:
    """Fix models, print the report, and return the exit code."""
    from qdqtool.errors import escape
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
