"""The options of ``validate``: which rules apply, which findings are known, and how to report."""

from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar

import click

from qdqtool.cli.declared import options_of, values_of
from qdqtool.cli.options import emit, output_format_option, verbosity_options
from qdqtool.cli.reports import PRINTED, WRITTEN, Pairs, parse_reports
from qdqtool.errors import plural
from qdqtool.linting.options import ValidateCommand
from qdqtool.options import Values

if TYPE_CHECKING:
    from qdqtool.linting.report import ValidateReport
    from qdqtool.linting.settings import Settings

Decorated = TypeVar("Decorated", bound=Callable[..., Any])

EXIT_FINDINGS = 1
EXIT_UNREADABLE = 3


def validate_options(function: Decorated) -> Decorated:
    """Add the options of ``validate``, except those that fix models."""
    for option in reversed(_OPTIONS):
        function = option(function)
    return function


def findings_option(flag: str, name: str) -> Callable[[Decorated], Decorated]:
    """Return the option for files of findings; ``name`` is the name of the argument."""
    return click.option(
        flag,
        name,
        multiple=True,
        callback=partial(parse_reports, WRITTEN),
        metavar="FORMAT=FILE",
        help="Also write the report to FILE, in any output format or as html; may be repeated.",
    )


_OPTIONS = (
    options_of(ValidateCommand),
    click.option("--show-context", is_flag=True, help="Text: also print the inputs and the readers of each node."),
    click.option("--statistics", is_flag=True, help="Print the number of findings of each rule only."),
    findings_option("--report", "reports"),
    output_format_option(*PRINTED),
    verbosity_options,
)


def settings_of(words: Mapping[str, Any]) -> "Settings":
    """Return the settings of the run: the settings of the nearest file, replaced by options of the command line.

    Raises:
        UsageError: The file cannot be read, or options contradict each other.
    """
    from qdqtool.errors import UsageError

    if words["baseline"] is not None and words["write_baseline"] is not None:
        raise UsageError(
            "--baseline and --write-baseline exclude each other", hint="`--write-baseline FILE` writes all findings"
        )
    if words["statistics"] and words["output_format"] not in {"text", "json"}:
        raise UsageError(f"--statistics has no output format {words['output_format']}", hint="use text or json")
    return settled(values_of(ValidateCommand, words))


def settled(values: Values) -> "Settings":
    """Return the settings of the nearest file, replaced by the given values.

    Raises:
        UsageError: The file cannot be read, or the parser is requested for a target without a parser.
    """
    from qdqtool.errors import UsageError
    from qdqtool.linting.parser_answer import PARSER_TARGET
    from qdqtool.linting.settings import Config, settle

    lists = ("targets", "sm", "select", "extend_select", "ignore")
    listed: dict[str, Any] = {name: [*values.get(name, ())] or None for name in lists}
    baseline, plugins = values.get("baseline"), values.get("plugin_ops")
    given = Config(
        fail_on=values.get("fail_on"),
        parser=values.get("parser"),
        plugin_ops=[str(each) for each in plugins] if plugins else None,
        baseline=str(baseline) if baseline is not None else None,
        **listed,
    )
    settings = settle(given, isolated=values.get("isolated", False))
    if values.get("parser") and PARSER_TARGET not in settings.policy.targets:
        raise UsageError(f"--parser needs target {PARSER_TARGET}", hint=f"add `--target {PARSER_TARGET}`")
    return settings


def refuse_with_fixes(options: dict[str, Any]) -> None:
    """Refuse options that cannot be used with ``--fix`` or ``--diff``.

    Raises:
        UsageError: Such an option is given.
    """
    from qdqtool.errors import UsageError

    given = [name for name in ("baseline", "write_baseline", "statistics", "reports", "parser") if options[name]]
    if options["output_format"] not in {"text", "json"}:
        given.append("output_format")
    if given:
        raise UsageError(f"--{given[0].replace('_', '-')} cannot be used with --fix or --diff", hint="use a second run")


def deliver(report: "ValidateReport", settings: "Settings", options: dict[str, Any]) -> int:
    """Print the report, or write the requested files, and return the exit code."""
    report = replace(report, settings=str(settings.source) if settings.source is not None else None)
    if options["write_baseline"] is not None:
        from qdqtool.linting.baseline import write_baseline

        count = write_baseline(report, options["write_baseline"])
        several = f" for {len(settings.policy.targets)} targets" if len(settings.policy.targets) > 1 else ""
        _say(f"{plural(count, 'finding')}{several} written to {options['write_baseline']}")
        code = 0
    else:
        report = _without_known(report, settings)
        code = EXIT_FINDINGS if settings.fail_on != "never" and report.reaches(settings.fail_on) else 0
        _print(report, options, passed=not code and not report.unreadable)
        if settings.fail_on == "never" and report.summary.errors and options["fail_on"] is None:
            _say(f"the exit code is 0 in spite of errors: fail-on is 'never' in {settings.source}")
    for model in report.unreadable:
        if options["output_format"] != "text" or options["statistics"] or options["write_baseline"] is not None:
            _say(f"error: {model.error}")
    return EXIT_UNREADABLE if report.unreadable else code


def write_reports(report: "ValidateReport", files: Pairs) -> None:
    """Write a report to each file, in its format."""
    from qdqtool.reports.files import write_report_files

    write_report_files(report, "findings", files)


def _without_known(report: "ValidateReport", settings: "Settings") -> "ValidateReport":
    if settings.baseline is None:
        return report
    from qdqtool.linting.baseline import read_baseline, without_known

    compared = without_known(report, read_baseline(settings.baseline), settings.baseline.parent)
    if compared.gone:
        _say(f"{compared.gone} findings of {settings.baseline} are fixed; --write-baseline removes them from the file")
    if compared.worse:
        _say(f"{compared.worse} findings of the baseline got worse and count as new")
    return compared.report


def _print(report: "ValidateReport", options: dict[str, Any], *, passed: bool) -> None:
    """Write the requested files, then print."""
    write_reports(report, options["reports"])
    if options["statistics"]:
        from qdqtool.linting.report import statistics

        emit(statistics(report), options["output_format"], "statistics", passed=passed)
    else:
        emit(report, options["output_format"], "findings", passed=passed, show_context=options["show_context"])


def _say(text: str) -> None:
    from qdqtool.errors import escape

    click.echo(escape(text), err=True)
