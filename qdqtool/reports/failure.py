"""Print the failure of a command that made no report: for people on stderr, and for programs on stdout."""

import sys
from dataclasses import dataclass, replace

import click
from rich.text import Text

from qdqtool.errors import escape
from qdqtool.reports import json
from qdqtool.reports.terminal import make_console


@dataclass(frozen=True, slots=True)
class Failure:
    """Why a command made no report.

    Attributes:
        message: The fault in one line.
        hint: How to fix it; None if that is unknown.
        exit_code: The exit code of the command.
    """

    message: str
    hint: str | None
    exit_code: int


@dataclass(frozen=True, slots=True)
class FailureReport:
    """The output on stdout in place of a report, if JSON was requested.

    Attributes:
        error: The failure.
    """

    error: Failure


MOST_CHARACTERS = 3000


def tell(failure: Failure) -> None:
    """Print a failure on stderr without the middle of a very long message.

    On a terminal, lines of the message are broken between words.
    """
    message = escape(failure.message)
    if len(message) > MOST_CHARACTERS:
        message = f"{message[: MOST_CHARACTERS // 2]}…{message[-MOST_CHARACTERS // 4 :]}"
    if sys.stderr.isatty():
        make_console(sys.stderr).print(Text(message))
    else:
        click.echo(message, err=True)
    # A hint stays one line, so that commands in it can be copied and pasted.
    if failure.hint:
        click.echo(f"hint: {escape(failure.hint)}", err=True)


def tell_programs(failure: Failure) -> None:
    """Print a failure on stdout as JSON."""
    plain = replace(failure, message=failure.message.removeprefix("error: "))
    click.echo(json.render(FailureReport(plain)))
