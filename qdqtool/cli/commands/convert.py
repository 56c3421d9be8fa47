"""``qdqtool convert``: a float model and data in; Q/DQ model, engine and one report out."""

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
from click.core import ParameterSource

from qdqtool.cli.commands import build, check, quantize
from qdqtool.cli.commands._convert_options import sections, step_options, values_of
from qdqtool.cli.options import emit, model_argument, output_format_option, step_progress, verbosity_options
from qdqtool.cli.profiles import ProfilesCommand
from qdqtool.cli.recipe_file import read_recipe, write_recipe
from qdqtool.cli.reports import reports_option
from qdqtool.cli.sections import REPORT, Layout
from qdqtool.cli.validate_options import settings_of, write_reports

if TYPE_CHECKING:
    from qdqtool.jobs.conversion.options import ConvertOptions
    from qdqtool.jobs.conversion.report import ConversionReport
    from qdqtool.linting.settings import Settings

LAYOUT = Layout(
    sections={
        "convert": ("output", "no_build", "recipe", "write_recipe"),
        **sections(),
        "Report": ("reports", *REPORT),
    },
    examples=(
        "qdqtool convert model.onnx --calib-data images.npz -o out",
        "qdqtool convert model.onnx --calib-data images.npz -o out --check-min-sqnr 20 --require-precision 'int8>=95%'",
        "qdqtool convert model.onnx --quantize-mode int4 --no-build -o out",
        "qdqtool convert --write-recipe > recipe.toml",
        "qdqtool convert model.onnx --recipe recipe.toml -o out",
    ),
)


@click.command(
    cls=ProfilesCommand, layout=LAYOUT, short_help="Quantize, validate, check and build in one go, with one report."
)
@model_argument()
@click.option(
    "-o",
    "--output",
    type=click.Path(path_type=Path),
    metavar="FOLDER",
    required=True,
    help="The folder for model, plan, ranges, engine, manifest, report.json and report.html. Its files of an earlier "
    "conversion are replaced or removed, others stay.",
)
@click.option("--no-build", is_flag=True, help="Build no engine.")
@click.option(
    "--recipe",
    type=click.Path(path_type=Path),
    metavar="FILE.toml",
    is_eager=True,
    expose_value=False,
    callback=read_recipe,
    help="Take options from this file, by their long names; the command line wins.",
)
@click.option(
    "--write-recipe",
    is_flag=True,
    is_eager=True,
    expose_value=False,
    callback=write_recipe,
    help="Print a recipe with all options and their defaults, and stop.",
)
@reports_option()
@output_format_option()
@verbosity_options()
@click.pass_context
def command(context: click.Context, /, *, model: Path, output: Path, output_format: str, **values: Any) -> None:
    """Quantize MODEL, validate and check the result, and build an engine from it.

    These are the commands `quantize`, `validate`, `check --baseline MODEL` and `build`, with their options and gates.
    The first gate that is missed ends the conversion with the exit code of its step; report.json in FOLDER says which.
    The check measures on --validation-data, or on the calibration samples that `quantize` holds back.

    `qdqtool explain convert` has the rest.
    """
    from qdqtool.jobs.conversion.convert import convert
    from qdqtool.jobs.conversion.options import ConvertProgress
    from qdqtool.reports.page.write import page_of_document

    data, asked = quantize.make_request(values_of("quantize", values))
    settings = settings_of(_validate_values(values, asked.recipe.target))
    options = _options(context, values, asked, settings)
    with step_progress() as (step, samples, layers):
        report = convert(
            model,
            data,
            output,
            options,
            ConvertProgress(step=step, samples=samples, layers=layers),
            page=page_of_document,
        )
    _write_findings(report, values)
    _print(report, output_format)
    context.exit(report.exit_code)


command.params.extend(step_options())


def _options(context: click.Context, values: dict[str, Any], asked: Any, settings: "Settings") -> "ConvertOptions":
    from qdqtool.jobs.conversion.options import ConvertOptions

    if values["no_build"]:
        _refuse_idle(context)
    words = {**values_of("build", values), "calib_data": None, "input_shapes": (), "input_values": ()}
    backend = words.pop("backend")
    return ConvertOptions(
        quantize=asked,
        policy=settings.policy,
        fail_on=settings.fail_on,
        known_findings=settings.baseline,
        check=check.make_options(values_of("check", values)),
        blame=values["blame"],
        build=None if values["no_build"] else build.make_options(context, **words),
        backend=backend,
    )


def _refuse_idle(context: click.Context) -> None:
    """Raise where the command line has an option of an engine that is not built; a recipe may have them."""
    from qdqtool.errors import UsageError

    others = {"compute_capabilities", "input_shapes", "input_values"}  # of other steps too
    for name in values_of("build", context.params).keys() - others:
        if context.get_parameter_source(name) is ParameterSource.COMMANDLINE:
            raise UsageError(f"--{name.replace('_', '-')} is for an engine, and --no-build asks for none")


def _validate_values(values: dict[str, Any], target: str) -> dict[str, Any]:
    """The values of ``validate``: the target and the GPUs are those of the other steps."""
    from qdqtool.engines.tensorrt.gpus import parse

    found = values_of("validate", values)
    gpus = values["compute_capabilities"]
    fixed = {"sm": list(parse(gpus)) if gpus is not None else [], "write_baseline": None, "statistics": False}
    return {**found, **fixed, "targets": found["targets"] or [target], "output_format": "text"}


def _write_findings(report: "ConversionReport", values: dict[str, Any]) -> None:
    from qdqtool.linting.report import ValidateReport

    found = report.step("validate").report
    if isinstance(found, ValidateReport):
        write_reports(found, values["validate_reports"])


def _print(report: "ConversionReport", output_format: str) -> None:
    """Print the report; why a step failed goes to stderr, as its command tells it."""
    from qdqtool.reports.failure import Failure, tell

    failed = None if report.failed is None else report.step(report.failed)
    if failed is not None and failed.message is not None:
        tell(Failure(f"error: {failed.step}: {failed.message}", failed.hint, report.exit_code))
    emit(report, output_format, "convert", passed=report.passed)
