"""The list of pages of the manual for a terminal."""

from rich.console import Console

from qdqtool.jobs.pages import Manual
from qdqtool.reports.terminal import make_table


def render(report: Manual, console: Console) -> None:
    """Print a row for each page."""
    table = make_table("page", "about")
    for page in report.pages:
        table.add_row(page.name, page.title)
    console.print(table)
    console.print("`qdqtool explain PAGE` shows one; `qdqtool rules` lists the rules, which it explains too")
