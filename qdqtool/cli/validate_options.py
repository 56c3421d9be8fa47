"""The options of ``validate``: what to apply, what is known, and how to report."""

import os
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from qdqtool.cli.completion import offer, rule_codes, targets_and_releases
from qdqtool.cli.options import OutputPath, emit, output_format_option, verbosity_options
from qdqtool.cli.reports import Pairs, parse_reports
from qdqtool.registry import unit_names
from qdqtool.reports import findings as _formats

if TYPE_CHECKING:
    from qdqtool.linting.report import ValidateReport
    from qdqtool.linting.settings import Settings

Decorated = TypeVar("Decorated", bound=Callable[..., Any])

EXIT_FINDINGS = 1
EXIT_UNREADABLE = 3

FORMATS = ("text", "json", *unit_names(_formats))
REPORT_FORMATS = (*FORMATS, "html")
"""An HTML page goes to files only."""


def validate_options(function: Decorated) -> Decorated:
    """The options of ``validate`` less those that fix models."""
    for option in reversed(_OPTIONS):
        function = option(function)
    return function


def _words(_context: click.Context, _parameter: click.Parameter, values: tuple[str, ...]) -> list[str]:
    """Every word of an option that takes commas and may be repeated."""
    return [word.strip() for value in values for word in value.split(",") if word.strip()]


def _list_option(name: str, metavar: str, text: str) -> Callable[[Decorated], Decorated]:
    find = {"TARGET": targets_and_releases, "CODE": rule_codes}.get(metavar)
    complete = None if find is None else offer(find, takes_commas=True)
    return click.option(
        *name.split(), multiple=True, callback=_words, metavar=f"{metavar},...", help=text, shell_complete=complete
    )


def _reports(context: click.Context, parameter: click.Parameter, values: tuple[str, ...]) -> Pairs:
    """Format and file of each report."""
    return parse_reports(REPORT_FORMATS, context, parameter, values)


_FILE = click.Path(path_type=Path)

_OPTIONS = (
    _list_option(
        "--target targets",
        "TARGET",
        "What the model is for: onnx, ort-cpu, tensorrt, tensorrt-rtx, or a release as tensorrt-10.8. Several with "
        "commas.  [default: tensorrt]",
    ),
    _list_option("--sm", "SM", "GPUs that the engine is for, as 8.6 or 86: report the types that they lack."),
    _list_option("--select", "CODE", "Only rules whose code begins so; ALL for all."),
    _list_option("--extend-select", "CODE", "These rules besides the selected ones."),
    _list_option("--ignore", "CODE", "No rules whose code begins so, unless --select names them more closely."),
    click.option(
        "--fail-on",
        type=click.Choice(["error", "warning", "never"]),
        help="Exit with 1 on a finding of this severity or worse.  [default: error]",
    ),
    click.option(
        "--parser/--no-parser",
        default=None,
        help="tensorrt-rtx: also ask the parser of TensorRT for RTX, in a process of its own.  [default: where it is "
        "installed, up to 1 GB of weights]",
    ),
    click.option("--baseline", type=_FILE, metavar="FILE", help="Report only findings that FILE does not hold."),
    click.option(
        "--write-baseline", type=OutputPath(), metavar="FILE", help="Store the findings in FILE and exit with 0."
    ),
    click.option("--isolated", is_flag=True, help="Read no qdqtool.toml or pyproject.toml."),
    click.option("--show-settings", is_flag=True, help="Print the settings in force and stop."),
    click.option(
        "--jobs",
        type=click.IntRange(min=1),
        metavar="N",
        help="Processes that share the models.  [default: one; more for what is left after a second, where they pay]",
    ),
    click.option("--show-context", is_flag=True, help="Text: also print what each node reads and what reads it."),
    click.option("--statistics", is_flag=True, help="Print how often each rule reported, not the findings."),
    click.option(
        "--report",
        "reports",
        multiple=True,
        callback=_reports,
        metavar="FORMAT=FILE",
        help="Also write the report to FILE, in any output format or as html; may be repeated.",
    ),
    output_format_option(*FORMATS),
    verbosity_options(),
)


def settings_of(options: dict[str, Any]) -> "Settings":
    """The settings of the run: those of the nearest file, with what the command line replaces.

    Raises:
        UsageError: The file cannot be read, or options contradict each other.
    """
    from qdqtool.errors import UsageError
    from qdqtool.linting.parser_answer import PARSER_TARGET
    from qdqtool.linting.settings import Config, settle

    if options["baseline"] is not None and options["write_baseline"] is not None:
        raise UsageError(
            "--baseline and --write-baseline exclude each other",
            hint="`--write-baseline FILE` writes all findings",
        )
    if options["statistics"] and options["output_format"] not in {"text", "json"}:
        raise UsageError(f"--statistics has no output format {options['output_format']}", hint="use text or json")
    given = Config(
        targets=options["targets"] or None,
        sm=options["sm"] or None,
        select=options["select"] or None,
        extend_select=options["extend_select"],
        ignore=options["ignore"] or None,
        fail_on=options["fail_on"],
        parser=options["parser"],
        baseline=str(options["baseline"]) if options["baseline"] is not None else None,
    )
    settings = settle(given, isolated=options["isolated"])
    if options["parser"] and PARSER_TARGET not in settings.policy.targets:
        raise UsageError(f"--parser asks for target {PARSER_TARGET} only", hint=f"add `--target {PARSER_TARGET}`")
    return settings


def refuse_with_fixes(options: dict[str, Any]) -> None:
    """Raise where an option is given that does not go with ``--fix`` or ``--diff``.

    Raises:
        UsageError: There is one.
    """
    from qdqtool.errors import UsageError

    given = [name for name in ("baseline", "write_baseline", "statistics", "reports", "parser") if options[name]]
    if options["output_format"] not in {"text", "json"}:
        given.append("output_format")
    if given:
        raise UsageError(
            f"--{given[0].replace('_', '-')} does not go with --fix or --diff", hint="validate again after"
        )


def deliver(report: "ValidateReport", settings: "Settings", options: dict[str, Any]) -> int:
    """Print the report, or write what was asked for, and return the exit code."""
    report = replace(report, settings=str(settings.source) if settings.source is not None else None)
    if options["write_baseline"] is not None:
        from qdqtool.linting.baseline import write_baseline

        count = write_baseline(report, options["write_baseline"])
        _say(f"{count} findings written to {options['write_baseline']}")
        code = 0
    else:
        report = _without_known(report, settings)
        code = EXIT_FINDINGS if settings.fail_on != "never" and report.reaches(settings.fail_on) else 0
        _print(report, options, passed=not code and not report.unreadable)
    for model in report.unreadable:
        if options["output_format"] != "text" or options["statistics"] or options["write_baseline"] is not None:
            _say(f"error: {model.error}")
    return EXIT_UNREADABLE if report.unreadable else code


def write_reports(report: "ValidateReport", files: Pairs) -> None:
    """Write a report to each file, in its format."""
    from qdqtool.models.graph.io.output import write_output

    for output_format, path in files:
        write_output(path, _content(report, output_format))


def _without_known(report: "ValidateReport", settings: "Settings") -> "ValidateReport":
    if settings.baseline is None:
        return report
    from qdqtool.linting.baseline import read_baseline, without_known

    compared = without_known(report, read_baseline(settings.baseline), settings.baseline.parent)
    if compared.gone:
        _say(f"{compared.gone} findings of {settings.baseline} are gone; --write-baseline takes them out")
    if compared.worse:
        _say(f"{compared.worse} findings are known and got worse; they count as new")
    return compared.report


def _print(report: "ValidateReport", options: dict[str, Any], *, passed: bool) -> None:
    """Write the files that were asked for, then print."""
    write_reports(report, options["reports"])
    output_format = options["output_format"]
    if options["statistics"]:
        from qdqtool.linting.report import statistics

        emit(statistics(report), output_format, "statistics", passed=passed)
    elif output_format == "text":
        emit(report, "text", "findings", passed=passed, show_context=options["show_context"])
    else:
        click.echo(_rendered(report, output_format))
    if output_format == "github":
        _append_summary(report)


def _content(report: "ValidateReport", output_format: str) -> bytes:
    from qdqtool.reports import files

    if output_format in files.FORMATS:
        return files.rendered(report, "findings", output_format)
    return f"{_rendered(report, output_format).rstrip()}\n".encode()


def _rendered(report: "ValidateReport", output_format: str) -> str:
    import importlib

    home = "qdqtool.reports" if output_format == "json" else _formats.__name__
    return str(importlib.import_module(f"{home}.{output_format}").render(report))


def _append_summary(report: "ValidateReport") -> None:
    path = os.environ.get("GITHUB_STEP_SUMMARY")
    if not path:
        return
    from qdqtool.errors import OutputError
    from qdqtool.reports.findings import markdown

    try:
        with Path(path).open("a", encoding="utf-8") as file:
            file.write(f"{markdown.render(report)}\n")
    except OSError as error:
        raise OutputError(f"job summary {path} cannot be written: {error.strerror}") from None


def _say(text: str) -> None:
    from qdqtool.errors import escape

    click.echo(escape(text), err=True)
