"""The options of ``validate`` that fix models."""

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from qdqtool.cli.options import constant_data_option, emit, output_option, samples_option, shapes_option

if TYPE_CHECKING:
    from qdqtool.linting.repair.report import FixReport

Decorated = TypeVar("Decorated", bound=Callable[..., Any])


def fix_options(function: Decorated) -> Decorated:
    """``--fix`` and what goes with it."""
    for option in reversed(_OPTIONS):
        function = option(function)
    return function


_OPTIONS = (
    click.option("--fix", is_flag=True, help="Fix what can be fixed with proof; needs -o, --in-place or --diff."),
    click.option(
        "--unsafe-fixes", is_flag=True, help="Fix also what changes numbers, or cannot be proven; the loss is printed."
    ),
    click.option("--diff", is_flag=True, help="Print what --fix would change, and write nothing."),
    output_option("The fixed model to write.", required=False),
    click.option("--in-place", is_flag=True, help="Write each fixed model over its own file."),
    samples_option("Samples that fixes are proven on, as for 'qdqtool check'.  [default: 4 random ones]"),
    constant_data_option(),
    shapes_option("--input-shapes", "Fix the shape of an input that fixes are proven on"),
)


def wants_fixes(options: dict[str, Any]) -> bool:
    """Whether models are to be fixed.

    Raises:
        UsageError: An option is there that only goes with ``--fix``.
    """
    from qdqtool.errors import UsageError

    if options["fix"] or options["diff"]:
        return True
    names = ("unsafe_fixes", "output", "in_place", "data", "allow_constant_data", "input_shapes")
    idle = next((name for name in names if options[name]), None)
    if idle is not None:
        flag = "-o" if idle == "output" else f"--{idle.replace('_', '-')}"
        raise UsageError(f"{flag} goes with --fix or --diff", hint="add `--fix`; or `--diff`, to only look")
    return False


def run_fixes(
    models: tuple[Path, ...], options: dict[str, Any], policy: Any, *, fail_on: str, output_format: str
) -> int:
    """Fix models, print the report, and return the exit code.

    Args:
        models: The files.
        options: The values of :func:`fix_options`.
        policy: A :class:`qdqtool.linting.policy.Policy`.
        fail_on: ``error``, ``warning`` or ``never``.
        output_format: ``text`` or ``json``.
    """
    from qdqtool.errors import escape
    from qdqtool.jobs.fix import FixRequest, fix_models
    from qdqtool.samples.input_shapes import parse_shapes
    from qdqtool.samples.request import DataRequest

    shapes = parse_shapes(options["input_shapes"], "--input-shapes")
    data = DataRequest(path=options["data"], allow_constant=options["allow_constant_data"], input_shapes=shapes)
    choice = {name: options[name] for name in ("diff", "in_place", "output")}
    report = fix_models(models, FixRequest(policy=policy, **choice, unsafe=options["unsafe_fixes"], data=data))
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
