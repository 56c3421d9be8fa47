"""A command that ended without a report, for people on stderr and for programs on stdout."""

import sys
from dataclasses import dataclass, replace

import click
from rich.text import Text

from qdqtool.errors import escape
from qdqtool.reports import json
from qdqtool.reports.terminal import make_console


@dataclass(frozen=True, slots=True)
class Failure:
    """Why there is no report.

    Attributes:
        message: The fault in one line.
        hint: What to do about it; None where nothing is known.
        exit_code: The exit code of the command.
    """

    message: str
    hint: str | None
    exit_code: int


@dataclass(frozen=True, slots=True)
class FailureReport:
    """What stands on stdout instead of a report where JSON was asked for.

    Attributes:
        error: The failure.
    """

    error: Failure


def tell(failure: Failure) -> None:
    """Print a failure on stderr; on a terminal the message is broken between words."""
    if sys.stderr.isatty():
        make_console(sys.stderr).print(Text(escape(failure.message)))
    else:
        click.echo(escape(failure.message), err=True)
    # A hint stays one line: the terminal breaks it, and what is copied from it can be pasted.
    if failure.hint:
        click.echo(f"hint: {escape(failure.hint)}", err=True)


def tell_programs(failure: Failure) -> None:
    """Print a failure on stdout as JSON, which is never empty there."""
    plain = replace(failure, message=failure.message.removeprefix("error: "))
    click.echo(json.render(FailureReport(plain)))
