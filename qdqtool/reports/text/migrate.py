"""Print translated command lines on a terminal."""

import shlex

from rich.console import Console

from qdqtool.errors import escape
from qdqtool.jobs.migrate import MigratedLine, MigrateReport
from qdqtool.jobs.migration.translation import MigratedOption
from qdqtool.reports.terminal import FittedTable

_FATES = {"default": "nothing to do", "none": "no counterpart"}
SHOWN = 80
"""Largest number of characters of an option that are printed."""


def render(report: MigrateReport, console: Console) -> None:
    """Print the commands of each line ready to paste, then what became of each option."""
    for number, line in enumerate(report.lines):
        if number:
            console.print()
        _line(line, console)


def _line(line: MigratedLine, console: Console) -> None:
    for words in line.commands:
        # ReportConsole breaks long lines, and a shell would read the parts as two commands.
        Console.print(console, shlex.join(map(escape, words)), soft_wrap=True)
    console.print()
    table = FittedTable("option", "qdqtool", "reason")
    for option in line.options:
        given = option.given if len(option.given) <= SHOWN else f"{option.given[:SHOWN]}…"
        table.add_row(escape(given), escape(option.ours) or _FATES[option.fate], _reason(option))
    console.print(table)
    if line.needs_data:
        console.print("DATA stands for calibration samples: `--calib-data DATA`", style="yellow")
    for note in line.notes:
        console.print(f"note     {escape(note)}", style="yellow", highlight=False)
    lost = [escape(option.given[:SHOWN]) for option in line.options if option.changes_result]
    if lost:
        console.print(f"not translated, and it changes the result: {', '.join(lost)}", style="red", highlight=False)


def _reason(option: MigratedOption) -> str:
    gone = f"removed in TensorRT {option.removed_in}" if option.removed_in else ""
    return escape("; ".join(part for part in (option.reason, gone) if part))
