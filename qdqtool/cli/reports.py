"""``--report FORMAT=FILE``: write the report of a command to a file, in addition to printing it."""

import contextlib
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path

import click

from qdqtool.cli.options import REPORTS_KEY, Decorated, OutputPath, given_models
from qdqtool.registry import suggestion, unit_names
from qdqtool.reports import findings

FORMATS = ("text", "json", "html")
PRINTED = ("text", "json", *unit_names(findings))
"""Formats of the reports of ``validate`` and ``check`` on stdout, including the formats of other tools."""
WRITTEN = (*PRINTED, "html")
"""Formats of the reports of ``validate`` and ``check`` in files."""
Pairs = tuple[tuple[str, Path], ...]
"""Format and file of each report."""


def reports_option(formats: Sequence[str] = FORMATS) -> Callable[[Decorated], Decorated]:
    """Return ``--report``, which :func:`qdqtool.cli.options.emit` reads; it is no argument of the command."""
    named = f"{', '.join(formats[:-1])} or {formats[-1]}"
    return click.option(
        "--report",
        "reports",
        multiple=True,
        expose_value=False,
        callback=partial(_remember, formats),
        metavar="FORMAT=FILE",
        help=f"Also write the report to FILE, as {named} (`qdqtool explain files`); may be repeated.",
    )


def parse_reports(
    formats: Sequence[str], context: click.Context, parameter: click.Parameter, values: Sequence[str]
) -> Pairs:
    """Return format and file of each report.

    Raises:
        BadParameter: A value is not ``FORMAT=FILE`` with one of the formats.
    """
    found = []
    for value in values:
        output_format, equals, path = value.partition("=")
        if output_format in formats and not path:
            raise click.BadParameter(f"'{value}' has no file name; write {output_format}=FILE")
        if output_format not in formats or not equals:
            near = suggestion(output_format, formats)
            raise click.BadParameter(f"'{value}' is not FORMAT=FILE with one of {', '.join(formats)}{near}")
        found.append((output_format, OutputPath().convert(path, parameter, context)))
    return tuple(found)


def has_reports(context: click.Context) -> bool:
    """Return whether ``--report`` names a file."""
    return bool(context.meta.get(REPORTS_KEY))


@contextlib.contextmanager
def guarded(context: click.Context) -> Iterator[None]:
    """Refuse unwritable report files before the command runs; write them even if it ends without a report."""
    pairs: Pairs = context.meta.get(REPORTS_KEY) or context.params.get("reports") or ()
    if not pairs:
        yield
        return
    _check(context, [path for _, path in pairs])
    from qdqtool.reports.files import failures_in

    files = tuple(each for each in pairs if each[0] in FORMATS)
    with failures_in(files, str(context.info_name), next(iter(given_models(context)), "")):
        yield


def _check(context: click.Context, paths: list[Path]) -> None:
    from qdqtool.errors import UsageError
    from qdqtool.models.graph.io.output import check_outputs, is_stream

    check_outputs(paths, _given(context, is_output=False))
    taken = {path.resolve() for path in _given(context, is_output=True)}
    for path in paths:
        if not is_stream(path) and path.resolve() in taken:
            raise UsageError(f"--report {path} is the file of two outputs", hint="name a file for each output")


def _given(context: click.Context, *, is_output: bool) -> list[Path]:
    """Return the files that other options and arguments name."""
    kinds = {each.name: each.type for each in context.command.params}
    values = {
        name: value
        for name, value in context.params.items()
        if isinstance(kinds.get(name), click.Path) and isinstance(kinds.get(name), OutputPath) is is_output
    }
    listed = [value if isinstance(value, tuple) else (value,) for value in values.values()]
    return [each for value in listed for each in value if isinstance(each, Path)]


def _remember(
    formats: Sequence[str], context: click.Context, parameter: click.Parameter, values: tuple[str, ...]
) -> None:
    # The value of a recipe is checked first; the command line then replaces it.
    context.meta[REPORTS_KEY] = parse_reports(formats, context, parameter, values)
