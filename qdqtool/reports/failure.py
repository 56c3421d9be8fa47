"""A command that ended without a report, for people on stderr and for programs on stdout."""

import re
import sys
from dataclasses import dataclass, replace
from typing import Any

import click
import msgspec
from rich.text import Text

from qdqtool.reports.terminal import escape, is_unsafe, make_console
from qdqtool.results import encode

_NOT_PRINTABLE_ASCII = re.compile(r"[^\n -~]")


def render(report: Any) -> str:
    r"""A report dataclass as indented JSON.

    Field names are the keys; numbers that JSON cannot spell (NaN, infinities) become null. It is safe to print: every
    control, format and unassigned character of a string is spelled ``\uXXXX``.

    Args:
        report: A dataclass whose fields msgspec can encode.
    """
    return spell_unsafe(msgspec.json.format(encode(report), indent=2).decode())


def spell_unsafe(document: str) -> str:
    r"""A JSON document with every character that may not reach a terminal spelled ``\uXXXX``; its value is the same."""
    return _NOT_PRINTABLE_ASCII.sub(lambda found: _spelled(found[0]), document)


def _spelled(char: str) -> str:
    if not is_unsafe(char):
        return char
    units = char.encode("utf-16-be", "surrogatepass")
    return "".join(f"\\u{units[at]:02x}{units[at + 1]:02x}" for at in range(0, len(units), 2))


@dataclass(frozen=True, slots=True)
class Failure:
    """Why there is no report.

    Attributes:
        message: What is wrong.
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
    click.echo(render(FailureReport(plain)))
