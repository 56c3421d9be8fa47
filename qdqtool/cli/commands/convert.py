"""``qdqtool convert``: turn a float model and data into a Q/DQ model, an engine and one report."""

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
from click.core import ParameterSource

from qdqtool.cli.commands import build, check, quantize, validate
from qdqtool.cli.declared import DeclaredOption, options_of, with_operators
from qdqtool.cli.options import emit, model_argument, report_options, step_progress
from qdqtool.cli.profiles import SHAPES, ProfilesCommand, profile_option, profile_values
from qdqtool.cli.recipe_file import read_recipe, write_recipe
from qdqtool.cli.reports import reports_option
from qdqtool.cli.sections import REPORT, Layout
from qdqtool.cli.validate_options import findings_option, settled, write_reports
from qdqtool.jobs.conversion.union import ConvertCommand, split, step_options
from qdqtool.options import COMMAND_LINE, Values, read

if TYPE_CHECKING:
    from qdqtool.jobs.conversion.report import ConversionReport
    from qdqtool.linting.settings import Settings

OPTIONS = {place: each for place, each in step_options().items() if each.only != "python"}
"""The options of all steps, by step and by name in that step."""


def _sections() -> dict[str, tuple[str, ...]]:
    """Return the headings of the steps, each with the names of its options."""
    commands = {"quantize": quantize.command, "build": build.command}
    commands |= {"validate": validate.command, "check": check.command}
    own = {place: each.name for place, each in OPTIONS.items()}
    own |= {("build", "profile"): "profile", ("validate", "reports"): "validate_reports"}
    found = {}
    for step, command in commands.items():
        for heading, names in command.sections.items():
            here = tuple(own[step, name] for name in names if (step, name) in own)
            if here:
                found[f"{step}: {heading}"] = here
    return found


LAYOUT = Layout(
    sections={
        "convert": ("output", "no_build", "recipe", "write_recipe"),
        **_sections(),
        "Report": ("reports", *REPORT),
    },
    first=(
        "output",
        "calib_data",
        "validation_data",
        "quantize_mode",
        "min_sqnr",
        "check_min_sqnr",
        "input_shapes",
        "require_precision",
        "no_build",
        "output_format",
        "help",
    ),
    examples=(
        "qdqtool convert model.onnx --calib-data images.npz -o out",
        "qdqtool convert model.onnx --calib-data images.npz -o out --check-min-sqnr 20 --require-precision 'int8>=95%'",
        "qdqtool convert model.onnx --quantize-mode int4 --no-build -o out",
        "qdqtool convert --write-recipe > recipe.toml",
        "qdqtool convert model.onnx --recipe recipe.toml -o out",
    ),
)


@click.command(cls=ProfilesCommand, layout=LAYOUT, short_help="Quantize, validate, check and build, with one report.")
@model_argument()
@click.option(
    "-o",
    "--output",
    type=click.Path(path_type=Path),
    metavar="FOLDER",
    required=True,
    help="The folder for model, plan, ranges, engine, manifest, report.json and report.html. Files of an "
    "earlier conversion are replaced or removed; other files stay.",
)
@options_of(ConvertCommand)
@profile_option()
@click.option(
    "--recipe",
    type=click.Path(path_type=Path),
    metavar="FILE.toml",
    is_eager=True,
    expose_value=False,
    callback=read_recipe,
    help="Read options from this file, by their long names. Options on the command line take precedence.",
)
@click.option(
    "--write-recipe",
    is_flag=True,
    is_eager=True,
    expose_value=False,
    callback=write_recipe,
    help="Print a recipe with all options and their defaults, and do nothing else.",
)
@reports_option()
@report_options
@click.pass_context
def command(context: click.Context, /, *, model: Path, output: Path, output_format: str, **words: Any) -> None:
    """Quantize MODEL, validate and check the result, and build an engine from it.

    These are the commands `quantize`, `validate`, `check --baseline MODEL` and `build`, with their options and gates.
    The first gate that is missed ends the conversion with the exit code of its step; report.json in FOLDER names it.
    The check measures on --validation-data, or on the hold-out samples of `quantize`.

    `qdqtool explain quantize` shows it by example.
    """
    from qdqtool.jobs.conversion.convert import convert
    from qdqtool.jobs.conversion.options import ConvertProgress
    from qdqtool.jobs.conversion.request import convert_request
    from qdqtool.reports.page.write import page_of_document

    declared = [each for each in OPTIONS.values() if each.name not in SHAPES]
    found = with_operators(read(declared, words, COMMAND_LINE))
    values = {"no_build": words["no_build"], **found, **profile_values(context)}
    given = [name for name in context.params if context.get_parameter_source(name) is ParameterSource.COMMANDLINE]
    data, options = convert_request(values, given, COMMAND_LINE)
    settings = _settings(values, options.target)
    options = replace(options, policy=settings.policy, fail_on=settings.fail_on, known_findings=settings.baseline)
    with step_progress() as (step, samples, layers):
        report = convert(
            model,
            data,
            output,
            options,
            ConvertProgress(step=step, samples=samples, layers=layers),
            page=page_of_document,
        )
    _write_findings(report, words)
    _print(report, output_format)
    context.exit(report.exit_code)


def _add_options() -> None:
    """Add the options of all steps; ``--validate-report`` comes after the other options of ``validate``."""
    steps = [step for step, _ in OPTIONS]
    for step in dict.fromkeys(steps):
        for (owner, _), each in OPTIONS.items():
            if owner == step:
                click.option(cls=DeclaredOption, declaration=each)(command)
        if step == "validate":
            findings_option("--validate-report", "validate_reports")(command)


_add_options()


def _settings(values: Values, target: str) -> "Settings":
    """Return the settings that judge the quantized model, with the target and GPUs of the other steps."""
    from qdqtool.engines.tensorrt.gpus import parse

    found = {"targets": (target,), **split(values)["validate"]}
    gpus = values.get("compute_capabilities")
    return settled({**found, "sm": parse(gpus) if gpus is not None else ()})


def _write_findings(report: "ConversionReport", words: Mapping[str, Any]) -> None:
    from qdqtool.linting.report import ValidateReport

    found = report.step("validate").report
    if isinstance(found, ValidateReport):
        write_reports(found, words["validate_reports"])


def _print(report: "ConversionReport", output_format: str) -> None:
    """Print the report; the reason for a failed step goes to stderr, in the form of its command."""
    from qdqtool.reports.failure import Failure, tell

    failed = None if report.failed is None else report.step(report.failed)
    if failed is not None and failed.message is not None:
        tell(Failure(f"error: {failed.step}: {failed.message}", failed.hint, report.exit_code))
    emit(report, output_format, "convert", passed=not report.exit_code)
