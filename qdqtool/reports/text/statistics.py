"""The counts of ``validate --statistics`` for a terminal."""

from rich.console import Console

from qdqtool.errors import plural
from qdqtool.linting.report import Statistics
from qdqtool.reports.terminal import make_table


def render(report: Statistics, console: Console) -> None:
    """Print a line for each rule, then the sum."""
    table = make_table("findings", "code", "name", "severity", "fixable", optional=("fixable", "severity"))
    for row in report.rules:
        table.add_row(str(row.count), row.code, row.name, row.severity, str(row.fixable or ""))
    if report.rules:
        console.print(table)
    summary = report.summary
    console.print(
        f"{plural(summary.errors, 'error')}, {plural(summary.warnings, 'warning')}, {plural(summary.infos, 'info')},"
        f" {summary.suppressed} suppressed, {summary.known} in the baseline, {summary.ignored} ignored"
    )
